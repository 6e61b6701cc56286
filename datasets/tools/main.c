#include "base/compiler.h"
#include "base/file.h"
#include "cli/command.h"
#include "datasets/tools/commands.h"

int main(int argc, char **argv)
{
    sluice_open_standard_descriptors();
    static const struct sluice_command commands[] = {
        {"synth", sluice_dataset_cmd_synth, "make a labelled, learnable set of images"},
        {"index", sluice_dataset_cmd_index, "write a manifest with content hashes"},
        {"fetch", sluice_dataset_cmd_fetch, "download the images of a list"},
        {"verify", sluice_dataset_cmd_verify, "compare a folder with its manifest"},
        {"pack", sluice_dataset_cmd_pack, "make tars of a folder"},
        {"unpack", sluice_dataset_cmd_unpack, "make a folder of tars"},
        {"tensor", sluice_dataset_cmd_tensor, "run images through a pipeline, write .npy"},
        {"preview", sluice_dataset_cmd_preview, "write a page of what a recipe makes of images"},
    };
    static const struct sluice_program program = {
        .name = "offload_dataset",
        .summary = "Make, index, check, pack and look into folders of images.",
        .commands = commands,
        .num_commands = SLUICE_ARRAY_LEN(commands),
    };
    return sluice_program_run(&program, argc, argv);
}
