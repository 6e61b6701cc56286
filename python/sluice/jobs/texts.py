"""Help, man page and completions of offload_job, of its argparse parser."""
import argparse


class Formatter(argparse.HelpFormatter):
    """80 columns, whatever the terminal."""

    def __init__(self, prog):
        super().__init__(prog, max_help_position=26, width=80)


def commands(top):
    """{name: (parser, one line about it)}."""
    action = next(one for one in top._actions if isinstance(one, argparse._SubParsersAction))
    about = {choice.dest: choice.help for choice in action._choices_actions}
    return {name: (parser, about[name]) for name, parser in action.choices.items()}


def _options(parser):
    return [one for one in parser._actions if one.option_strings and one.help != argparse.SUPPRESS]


def _value(action):
    if action.nargs == 0:
        return ""
    return action.metavar or (" | ".join(action.choices) if action.choices else action.dest.upper())


def _roff(text):
    return text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq")


def _man_options(parser):
    lines = []
    for action in parser._actions:
        if action.help == argparse.SUPPRESS or isinstance(action, argparse._SubParsersAction):
            continue
        names = ", ".join(f"\\fB{_roff(name)}\\fR" for name in action.option_strings)
        value = _value(action)
        head = names + (f" \\fI{_roff(value)}\\fR" if names and value else "" if names else f"\\fI{_roff(value)}\\fR")
        lines += [".TP", head, _roff(action.help)]
    return lines


def man(top, version):
    """The page offload_job(1)."""
    lines = [f'.TH OFFLOAD_JOB 1 "" "sluice {version}" "Sluice"', ".SH NAME",
             "offload_job \\- run a training job with its storage server", ".SH SYNOPSIS",
             "\\fBoffload_job\\fR \\fICOMMAND\\fR [\\fIoptions\\fR]", ".SH DESCRIPTION", _roff(top.description)]
    for name, (parser, _) in commands(top).items():
        usage = " ".join(_value(one) for one in parser._actions if not one.option_strings)
        lines += [f".SH {name.upper()}", f"\\fBoffload_job {name}\\fR {_roff(usage)} [\\fIoptions\\fR]", ".PP",
                  _roff(parser.description), *_man_options(parser)]
    lines += [".SH EXIT STATUS",
              "0: done; 1: it failed, or the job did; 2: a usage error, or a mistake in the job's file.",
              ".SH ENVIRONMENT", ".TP", "SLUICE_JOBS", "Folder of the jobs' records."]
    return "\n".join(lines)


_BASH = """\
_offload_job() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}}
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W "{commands} --help --version" -- "$word"))
        return
    fi
    case $before in
{values}
    --jobs | --out) COMPREPLY=($(compgen -d -- "$word")); return ;;
    esac
    case ${{COMP_WORDS[1]}} in
{options}
    esac
    case ${{COMP_WORDS[1]}},$word in
    *,-*) ;;
    submit,* | run,* | render,* | validate,*) COMPREPLY=($(compgen -f -- "$word")) ;;
    show,* | logs,* | wait,* | pause,* | resume,* | cancel,* | exec,*)
        COMPREPLY=($(compgen -W "$(offload_job list 2>/dev/null | cut -d ' ' -f 1)" -- "$word")) ;;
    esac
}}
complete -F _offload_job offload_job
"""
_ZSH = """\
#compdef offload_job
local -a job_commands=({commands})
if (( CURRENT == 2 )); then
    _describe command job_commands
    return
fi
case $words[2] in
{options}
esac
"""
_ZSH_ARGUMENTS = {"file": "':file:_files'", "files": "'*:file:_files'",
                  "job": "':job:($(offload_job list 2>/dev/null | cut -d \" \" -f 1))'", "role": "':role:'",
                  "words": "'*::command:_normal'"}


def _bash(top):
    found = commands(top)
    options, values = [], {}
    for name, (parser, _) in found.items():
        flags = " ".join(flag for one in _options(parser) for flag in one.option_strings)
        options.append(f'    {name}) COMPREPLY=($(compgen -W "{flags}" -- "$word")) ;;')
        values.update((one.option_strings[-1], one.choices) for one in _options(parser) if one.choices)
    return _BASH.format(commands=" ".join(found), options="\n".join(options), values="\n".join(
        f"    {flag}) COMPREPLY=($(compgen -W \"{' '.join(choices)}\" -- \"$word\")); return ;;"
        for flag, choices in values.items()))


def _zsh_option(action):
    about = action.help.replace("'", "").replace("[", "(").replace("]", ")").replace(":", "\\:")
    value = "" if action.nargs == 0 else (f":value:({' '.join(action.choices)})" if action.choices else
                                          ":folder:_files -/" if action.metavar == "DIR" else ":value:")
    return " ".join(f"'{name}[{about}]{value}'" for name in action.option_strings)


def _zsh(top):
    found = commands(top)
    options = []
    for name, (parser, _) in found.items():
        words = [_zsh_option(one) for one in _options(parser)]
        words += [_ZSH_ARGUMENTS[one.dest] for one in parser._actions if not one.option_strings]
        options.append(f"{name}) _arguments {' '.join(words)} ;;")
    shown = " ".join("'{}:{}'".format(name, about.replace(":", "\\:").replace("'", ""))
                     for name, (_, about) in found.items())
    return _ZSH.format(commands=shown, options="\n".join(options))


def completion(top, shell):
    return (_bash if shell == "bash" else _zsh)(top)
