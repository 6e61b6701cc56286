"""Pipelines from the transform objects that people have: torchvision's, v1 and v2, and timm's.

    loader = sluice.torch.Loader("storage:50051", 256, recipe=train_transform)
    print(sluice.recipes.explain(train_transform))

A list of transforms, and the DataAugmentationDINO of DINOv2 and DINOv3, become the views of a sample.

Each known part becomes ops of a pipeline (docs/RECIPES.md), whose pixels are those that the part makes of a PIL image
with the same parameters, bit for bit.  What a sample draws is not what torchvision's generator would draw: the
distribution is the same, and the draws of a seed, epoch and sample are always the same.
"""
import dataclasses
import fractions
import importlib.metadata
import itertools
import json
import logging
import math
import pathlib
import struct
import sys
import typing

from sluice import _dino, _sluice

_PRESETS = pathlib.Path(__file__).parent / "presets"

# torchvision's names of a resize's filter that the ops have.
_FILTERS = ("nearest", "bilinear", "bicubic")  # of warps
_RESIZES = (*_FILTERS, "lanczos", "box", "hamming")
_NUMBERS = dict(zip("023145", _RESIZES))  # of Pillow


def _number(value):
    """A plain decimal, as the grammar wants it."""
    return f"{float(value):.9f}".rstrip("0").rstrip(".")


def _span(bounds):
    low, high = (float(value) for value in bounds)
    return _number(low) if low == high else f"{_number(low)}-{_number(high)}"


def _ratio(value):
    """A decimal, or a fraction such as 4/3, which decimals only come near to."""
    fraction = fractions.Fraction(value).limit_denominator(16)
    is_fraction = float(fraction) == value and fraction.denominator > 1
    return f"{fraction.numerator}/{fraction.denominator}" if is_fraction else _number(value)


def _refuse(part, why):
    raise _sluice.InvalidError(f"{type(part).__name__}: {why}")


def _with_p(text, part):
    p = float(getattr(part, "p", 1))
    return text if p == 1 else f"{text}:p={_number(p)}"


def _filter_of(part):
    mode = getattr(part, "interpolation", None)
    name = str(getattr(mode, "value", mode)).lower()
    return _NUMBERS.get(name, name)


def _fill(part):
    fill = getattr(part, "fill", None)
    if isinstance(fill, dict):
        _refuse(part, "a fill for each type; give one number, or one for each channel")
    values = [0] if fill is None else [fill] if isinstance(fill, (int, float)) else list(fill)
    if len(values) not in (1, 3) or any(value != int(value) or not 0 <= value <= 255 for value in values):
        _refuse(part, f"fill {fill}: whole numbers from 0 to 255, one or three")
    return "/".join(str(int(value)) for value in values)


def _warp(part):
    """':filter=...:fill=...' of a part that moves pixels."""
    name = _filter_of(part)
    if name not in _FILTERS:
        _refuse(part, f"interpolation {name}: one of {', '.join(_FILTERS)}")
    return f":filter={name}:fill={_fill(part)}"


def _size(size):
    """"224" or "HEIGHTxWIDTH" of a crop."""
    sides = [size] if isinstance(size, int) else list(size)
    return str(int(sides[0])) if len(set(sides)) == 1 else "x".join(str(int(side)) for side in sides)


def _resize_filter(part):
    """":filter=..." of a part that resizes; timm's "random" is a tuple of the two."""
    if isinstance(part.interpolation, (tuple, list)):
        names = [str(getattr(mode, "value", mode)).lower() for mode in part.interpolation]
        if _NUMBERS.get(names[0], names[0]) != "bilinear" or len(names) != 2:
            _refuse(part, f"interpolation {part.interpolation}: bilinear and bicubic in turns")
        return ":filter=random"
    name = _filter_of(part)
    if name not in _RESIZES:
        _refuse(part, f"interpolation {name}: one of {', '.join(_RESIZES)}")
    return "" if name == "bilinear" else f":filter={name}"


def _resized_crop(part):
    return [f"random_resized_crop={_size(part.size)}:scale={_span(part.scale)}:ratio={'-'.join(map(_ratio, part.ratio))}"
            f"{_resize_filter(part)}"]


def _resize(part):
    most = getattr(part, "max_size", None)
    if part.size is None:
        return [f"resize={most}{_resize_filter(part)}:side=longer"]
    sides = [part.size] if isinstance(part.size, int) else list(part.size)
    bound = "" if most is None else f":max={most}"
    return [f"resize={'x'.join(str(int(side)) for side in sides)}{_resize_filter(part)}{bound}"]


def _jitter(part):
    ops = [f"{op}={_span(bounds)}" for op, bounds in (
        ("brightness", part.brightness), ("contrast", part.contrast), ("color", part.saturation), ("hue", part.hue))
        if bounds is not None]
    return [f"shuffled({','.join(ops)})"] if ops else []


def _blur(part):
    kernels = set(part.kernel_size)
    if len(kernels) != 1:
        _refuse(part, f"kernel_size {tuple(part.kernel_size)}: one number for both directions")
    return [f"tv_blur={_span(part.sigma)}:kernel={kernels.pop()}"]


def _padding(part):
    """":mode=..." or ":fill=..." of a part that pads."""
    if part.padding_mode != "constant":
        return f":mode={part.padding_mode}"
    fill = _fill(part)
    return "" if fill == "0" else f":fill={fill}"


def _random_resize(part):
    return [f"random_resize={int(part.min_size)}-{int(part.max_size) - 1}{_resize_filter(part)}"]


def _zoom_out(part):
    low, high = part.side_range
    fill = _fill(part)
    return [f"zoom_out={_number(low)}-{_number(high)}:p={_number(part.p)}" + ("" if fill == "0" else f":fill={fill}")]


def _iou_crop(part):
    if list(part.options) != [0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0]:
        _refuse(part, f"sampler_options {part.options}: those that it has by default")
    trials = "" if part.trials == 40 else f":trials={part.trials}"
    return [f"iou_crop={_number(part.min_scale)}-{_number(part.max_scale)}:ratio={_ratio(part.min_aspect_ratio)}-"
            f"{_ratio(part.max_aspect_ratio)}:p={_number(getattr(part, 'p', 1))}{trials}"]


def _random_crop(part):
    padding = part.padding or 0
    if not isinstance(padding, int):
        if len(set(padding)) != 1:
            _refuse(part, f"padding {padding}: one number for all sides")
        padding = padding[0]
    return [f"random_crop={_size(part.size)}:padding={padding}{_padding(part)}"]


def _pad(part):
    sides = [part.padding] if isinstance(part.padding, int) else list(part.padding)
    if min(sides) < 0:
        _refuse(part, f"padding {part.padding}: pad adds pixels; center_crop and random_crop take them away")
    return [f"pad={'/'.join(map(str, sides))}{_padding(part)}"]


def _distort(part):
    spans = ((name, getattr(part, name)) for name in ("brightness", "contrast", "saturation", "hue"))
    return [f"photometric_distort={_number(part.p)}" + "".join(f":{name}={_number(low)}-{_number(high)}"
                                                              for name, (low, high) in spans)]


def _group(name):
    def of(part):
        inner = ",".join(_inner(part))
        return [_with_p(f"{name}({inner})", part)] if inner and getattr(part, "p", 1) else []
    return of


def _inner(part):
    """The ops of the parts in a part."""
    return [op for child in part.transforms for op in _ops(child)]


def _one_of(part):
    weights = getattr(part, "p", None) or getattr(part, "probabilities", None) or [1] * len(part.transforms)
    texts = []
    for child, weight in zip(part.transforms, weights):
        ops = _ops(child) or ["identity"]
        text = ops[0] if len(ops) == 1 else f"sequence({','.join(ops)})"
        texts.append(text if weight == 1 else f"{text}:weight={_number(weight)}")
    return [f"one_of({','.join(texts)})"]


def _rotation(part):
    if part.expand or part.center is not None:
        _refuse(part, "expand or center: rotate turns about the centre, within the image")
    return [f"rotate={_span(part.degrees)}{_warp(part)}"]


def _affine(part):
    if getattr(part, "center", None) is not None:
        _refuse(part, "center: affine turns about the centre")
    text = f"affine={_span(part.degrees)}"
    if part.translate is not None:
        x, y = part.translate
        text += f":translate_x={_span((-x, x))}:translate_y={_span((-y, y))}"
    if part.scale is not None:
        text += f":scale={_span(part.scale)}"
    if part.shear is not None:
        shear = list(part.shear)
        text += f":shear_x={_span(shear[:2])}"
        if len(shear) == 4:
            text += f":shear_y={_span(shear[2:])}"
    return [text + _warp(part)]


def _gray(part):
    if part.num_output_channels != 3:
        _refuse(part, "num_output_channels 1: images have three channels; give 3")
    return ["grayscale"]


def _randaugment(part):
    return [f"randaugment={part.num_ops}:magnitude={part.magnitude}:bins={part.num_magnitude_bins}{_warp(part)}"]


# timm's _RAND_TRANSFORMS; _RAND_INCREASING_TRANSFORMS have these two and the four of ImageEnhance otherwise.
_TIMM = {"AutoContrast", "Equalize", "Invert", "Rotate", "Posterize", "Solarize", "SolarizeAdd", "Color", "Contrast",
         "Brightness", "Sharpness", "ShearX", "ShearY", "TranslateXRel", "TranslateYRel"}
_TIMM_INCREASING = {"Posterize", "Solarize", "Color", "Contrast", "Brightness", "Sharpness"}


def _timms(part, ops):
    """The deviation of the magnitude and ":filter=...:fill=..." that timm's ops have in common."""
    first = ops[0]
    if any((op.magnitude_std, op.magnitude_max) != (first.magnitude_std, first.magnitude_max) for op in ops):
        _refuse(part, "its ops have different magnitudes or probabilities")
    if first.magnitude_std == float("inf") or first.magnitude_max is not None:
        _refuse(part, "a uniform or bounded magnitude (mstd of 100 and more, mmax)")
    resample = first.kwargs.get("resample", (2, 3))
    name = "random" if isinstance(resample, (tuple, list)) else _NUMBERS.get(str(int(resample)))
    fill = first.kwargs.get("fillcolor", (128, 128, 128))
    return _number(first.magnitude_std), f":filter={name}:fill={'/'.join(str(int(value)) for value in fill)}"


def _auto_augment_timm(part):
    table = [[(op.name, op.prob, op.magnitude) for op in pair] for pair in part.policy]
    policy_of = sys.modules[type(part).__module__].auto_augment_policy
    for name in ("original", "originalr", "v0", "v0r"):
        if table == [[(op.name, op.prob, op.magnitude) for op in pair] for pair in policy_of(name)]:
            mstd, warp = _timms(part, [op for pair in part.policy for op in pair])
            return [f"auto_augment={name}" + ("" if mstd == "0" else f":mstd={mstd}") + warp]
    _refuse(part, "unknown policy: the known ones are original, originalr, v0 and v0r")


def _rand_augment_timm(part):
    names = {op.name for op in part.ops}
    increasing = {name + "Increasing" if name in _TIMM_INCREASING else name for name in _TIMM}
    if names not in (_TIMM, increasing) or part.choice_weights is not None:
        _refuse(part, "its ops are neither timm's 15 nor their increasing forms, or have weights")
    first = part.ops[0]
    if any((op.prob, op.magnitude) != (first.prob, first.magnitude) for op in part.ops):
        _refuse(part, "its ops have different magnitudes or probabilities")
    mstd, warp = _timms(part, part.ops)
    return [f"rand_augment_timm={_number(first.magnitude)}:mstd={mstd}"
            f":num_ops={part.num_layers}:prob={_number(first.prob)}:increasing={int(names != _TIMM)}{warp}"]


def _auto_op(name, p, magnitude, warp):
    """An op of torchvision's AutoAugment, at one of its ten magnitudes (_augmentation_space())."""
    part = 0 if magnitude is None else magnitude / 9
    factor = {"Brightness": "brightness", "Color": "color", "Contrast": "contrast", "Sharpness": "sharpness"}
    if name in factor:
        text = f"{factor[name]}=1~{_number(0.9 * part)}"
    else:
        text = {
            "ShearX": f"shear_x=~{_number(0.3 * part)}{warp}",
            "ShearY": f"shear_y=~{_number(0.3 * part)}{warp}",
            "TranslateX": f"translate_x=~{_number(150 / 331 * part)}:unit=whole_part{warp}",
            "TranslateY": f"translate_y=~{_number(150 / 331 * part)}:unit=whole_part{warp}",
            "Rotate": f"rotate=~{_number(30 * part)}{warp}",
            "Posterize": f"posterize={8 - round(part * 4)}",
            "Solarize": f"solarize={_number(255 * (1 - part))}",
            "AutoContrast": "autocontrast", "Equalize": "equalize", "Invert": "invert",
        }[name]
    return text if p == 1 else f"{text}:p={_number(p)}"


def _auto_augment(part):
    warp = _warp(part)
    policies = part.policies if hasattr(part, "policies") else part._policies
    if policies == part._get_policies(part.policy):
        return [f"auto_augment={part.policy.value}{warp}"]
    pairs = (",".join(_auto_op(*op, warp) for op in pair) for pair in policies)
    return [f"one_of({','.join(f'sequence({pair})' for pair in pairs)})"]


def _augmix(part):
    depth = f":depth={part.chain_depth}" if part.chain_depth > 0 else ""
    return [f"augmix={part.severity}:width={part.mixture_width}{depth}:alpha={_number(part.alpha)}"
            f":all_ops={int(part.all_ops)}{_warp(part)}"]


def _trivial(part):
    if part.num_magnitude_bins != 31:
        _refuse(part, f"num_magnitude_bins {part.num_magnitude_bins}: there are 31")
    return ["trivial_augment_wide=" + _warp(part).removeprefix(":filter=")]


def _to_dtype(part):
    dtype = getattr(part, "dtype", None)
    if "float32" not in str(dtype) or getattr(part, "scale", True) is False:
        _refuse(part, f"dtype {dtype}: float32, scaled to 0 .. 1")
    return ["to_tensor"]


def _float32(value):
    """The shortest plain decimal that is the same float32, in which normalize computes."""
    want = struct.pack("f", value)
    texts = (f"{float(value):.{digits}f}" for digits in range(1, 12))
    return _number(next(text for text in texts if struct.pack("f", float(text)) == want))


def _normalize(part):
    mean, std = (":".join(_float32(value) for value in values) for values in (part.mean, part.std))
    return [f"normalize={mean}/{std}"]


# By the name of the class.
_PARTS = {
    "Compose": _inner,
    "Sequential": lambda part: [op for child in part for op in _ops(child)],
    "RandomApply": _group("sequence"),
    "RandomOrder": _group("shuffled"),
    "RandomChoice": _one_of,
    "Identity": lambda part: [],
    "RandomResizedCrop": _resized_crop,
    "Resize": _resize,
    "CenterCrop": lambda part: [f"center_crop={_size(part.size)}"],
    "RandomHorizontalFlip": lambda part: [f"hflip={_number(part.p)}"],
    "RandomVerticalFlip": lambda part: [_with_p("vflip", part)],
    "RandomCrop": _random_crop,
    "Pad": _pad,
    "RandomZoomOut": _zoom_out,
    "RandomResize": _random_resize,
    "RandomIoUCrop": _iou_crop,
    "ClampBoundingBoxes": lambda part: [],  # sluice.annotations clips and filters boxes
    "SanitizeBoundingBoxes": lambda part: [],
    "ColorJitter": _jitter,
    "GaussianBlur": _blur,
    "RandomPhotometricDistort": _distort,
    "RandomChannelPermutation": lambda part: ["channel_permute"],
    "Grayscale": _gray,
    "RandomGrayscale": lambda part: [_with_p("grayscale", part)],
    "RandomInvert": lambda part: [_with_p("invert", part)],
    "RandomAutocontrast": lambda part: [_with_p("autocontrast", part)],
    "RandomEqualize": lambda part: [_with_p("equalize", part)],
    "RandomSolarize": lambda part: [_with_p(f"solarize={_number(part.threshold)}", part)],
    "RandomPosterize": lambda part: [_with_p(f"posterize={int(part.bits)}", part)],
    "RandomAdjustSharpness": lambda part: [_with_p(f"sharpness={_number(part.sharpness_factor)}", part)],
    "RandomRotation": _rotation,
    "RandomAffine": _affine,
    "RandomPerspective": lambda part: [_with_p(f"perspective={_number(part.distortion_scale)}{_warp(part)}", part)],
    "RandAugment": _randaugment,
    "AutoAugment": _auto_augment,
    "TrivialAugmentWide": _trivial,
    "AugMix": _augmix,
    "RandomResizedCropAndInterpolation": _resized_crop,
    "MaybeToTensor": lambda part: ["to_tensor"],
    "ToTensor": lambda part: ["to_tensor"],
    "PILToTensor": lambda part: [],
    "ToImage": lambda part: [],
    "ConvertImageDtype": _to_dtype,
    "ToDtype": _to_dtype,
    "Normalize": _normalize,
}

_FROM_PIL = {"ToTensor", "PILToTensor", "ToImage", "MaybeToTensor"}
_OF_TENSORS = {"Normalize", "ConvertImageDtype", "ToDtype", "Identity"}

# The nearest op or way, for parts that no op stands for.
_NEAREST = {
    "RandomErasing": "what comes after Normalize is done to batches: sluice.torch.Loader(recipe=) takes it at the end, and "
                     "RandomErasing of sluice.torch and sluice.jax is the same",
    "Lambda": "a function; call it for each image after the last op (python_tail=), or for the batches (transform=)",
}


def _known_class(part):
    """The class, or the one of torchvision to which it only gives arguments, as DINOv2's GaussianBlur does."""
    for base in type(part).__mro__:
        if base.__module__.split(".")[0] == "torchvision":
            return base
        if any(callable(value) and name not in ("__init__", "__repr__") for name, value in vars(base).items()):
            break
    return type(part)


def _ops(part):
    if isinstance(part, _dino.Shared):
        return [f"{op}:draws={i}" for i, op in enumerate(_inner(part), part.first)]
    name, module = _known_class(part).__name__, _known_class(part).__module__
    if module == "timm.data.auto_augment" and name in ("RandAugment", "AutoAugment"):
        return _rand_augment_timm(part) if name == "RandAugment" else _auto_augment_timm(part)
    if module.split(".")[0] == "timm" and name not in ("RandomResizedCropAndInterpolation", "MaybeToTensor"):
        _refuse(part, "no op does this: of timm's own parts its RandAugment, AutoAugment, crop and MaybeToTensor are known; "
                      "python_tail= calls others for each image after the last op")
    if module.split(".")[0] not in ("torchvision", "torch", "timm") or name not in _PARTS:
        why = _NEAREST.get(name, "call it for each image after the last op (python_tail=), apply it to the batches (transform=), "
                                  "or leave it out")
        _refuse(part, f"no op does this: {why}.  Known are {', '.join(sorted(_PARTS))} of torchvision and timm")
    return _PARTS[name](part)


def _erasing(part):
    """The arguments of our RandomErasing for torchvision's or timm's."""
    if hasattr(part, "probability"):  # timm's
        low, high = part.log_aspect_ratio
        if (part.min_count, part.max_count) != (1, 1) or part.num_splits > 1:
            _refuse(part, "several boxes, or splits of a batch: one box in every image")
        fill = "pixel" if part.per_pixel else "channel" if part.rand_color else 0
        return {"p": part.probability, "scale": (part.min_area, part.max_area),
                "ratio": (math.exp(low), math.exp(high)), "fill": fill}
    fill = "pixel" if part.value in (None, "random") else part.value
    return {"p": part.p, "scale": tuple(part.scale), "ratio": tuple(part.ratio), "fill": fill}


def _views(recipe):
    """The parts of each view, of a list of transforms or of a DataAugmentationDINO; None: there is one image."""
    if isinstance(recipe, (list, tuple)):
        if not recipe:
            raise _sluice.InvalidError("recipe: a list without a transform: give one for each view")
        return [[part] for part in recipe]
    return _dino.views_of(recipe, _refuse) if _dino.is_dino(recipe) else None


def _split_tail(ops):
    """The ops of the pixels, and those from to_tensor on."""
    at = ops.index("to_tensor") if "to_tensor" in ops else len(ops)
    return ops[:at], ops[at:]


def _text_of_views(views):
    """The pipeline of parts for each view."""
    parts = [_split_tail([op for part in view for op in _ops(part)]) for view in views]
    tail = parts[0][1]
    for i, (_, other) in enumerate(parts):
        if other != tail:
            raise _sluice.InvalidError(f"recipe: view {i} ends in {','.join(other) or 'u8'}, and view 0 in "
                                       f"{','.join(tail) or 'u8'}: all views have one ToTensor and Normalize")
    texts = []
    for ops, same in itertools.groupby(",".join(ops) for ops, _ in parts):
        count = len(list(same))
        texts.append(f"{count}x[{ops}]" if count > 1 else f"[{ops}]")
    return ",".join(["decode", f"views({','.join(texts)})", *tail])


@dataclasses.dataclass
class Recipe:
    """Pipelines as text, and what sluice.torch and sluice.jax do to the batches of training."""
    train: str
    val: typing.Optional[str] = None       # None: usual evaluation at the size of training
    erasing: typing.Optional[dict] = None  # arguments of RandomErasing
    mix: typing.Optional[dict] = None      # arguments of Mix
    repeat_within_batch: int = 1           # the Loader's setting, of training


def presets():
    """Names that Loader(recipe=) and preset() take."""
    return sorted(path.stem for path in _PRESETS.glob("*.json"))


def preset(name):
    """The Recipe of that name; its file is also what offload_train --pipeline @FILE takes."""
    path = _PRESETS / f"{name}.json"
    if name not in presets():
        raise _sluice.InvalidError(f"recipe {name!r}: none of {', '.join(presets())}")
    read = json.loads(path.read_text())
    return Recipe(",".join(read["train"]), ",".join(read["val"]), read.get("erasing"), read.get("mix"),
                  read.get("repeat_within_batch", 1))


def _with_numerics(pipeline, numerics):
    if pipeline is None:
        return None
    if not pipeline.startswith("decode"):
        raise _sluice.InvalidError(f"numerics: {pipeline} is a file; write decode={numerics} into its pipelines")
    return f"decode={numerics}{pipeline[len(pipeline.split(',')[0]):]}"


_is_told = False


def _tell_of_pillow13(pipeline):
    """Once, where the Pillow that is installed is not the one whose pixels the pipeline makes."""
    global _is_told
    if _is_told or not pipeline.startswith("decode,") or "resize" not in pipeline:
        return
    try:
        version = importlib.metadata.version("pillow")
    except importlib.metadata.PackageNotFoundError:
        return
    if int(version.split(".")[0]) >= 13:
        _is_told = True
        logging.getLogger("sluice").warning(
            "Pillow %s is installed, and the recipe resizes as Pillow up to 12 does: some crops differ in the last bit. "
            "recipe=sluice.recipes.of(recipe, numerics=\"pillow13\") gives the pixels of Pillow 13, and "
            "numerics=\"pillow12\" those of before without this warning", version)


def of(recipe, numerics=None):
    """The Recipe of a transform, of a preset's name or of a pipeline's text.

    numerics  "pillow12" or "pillow13": whose pixels resizes make (docs/NUMERICS.md).  None: what the text says, pillow12
              by default, whichever Pillow is installed"""
    made = _of(recipe)
    if numerics is not None:
        return dataclasses.replace(made, train=_with_numerics(made.train, numerics), val=_with_numerics(made.val, numerics))
    _tell_of_pillow13(made.train)
    return made


def _of(recipe):
    if isinstance(recipe, Recipe):
        return recipe
    if isinstance(recipe, str):
        return Recipe(recipe) if recipe.startswith(("decode", "@")) else preset(recipe)
    views = _views(recipe)
    if views is not None:
        return Recipe(_text_of_views(views))
    parts = list(getattr(recipe, "transforms", [recipe]))
    erasing = _erasing(parts.pop()) if type(parts[-1]).__name__ == "RandomErasing" else None
    return Recipe(",".join(["decode", *(op for part in parts for op in _ops(part))]), erasing=erasing)


def _leaves(part):
    """The parts in a transform, or in those of several views, that have no others in them."""
    views = _views(part)
    if views is not None:
        return [leaf for view in views for child in view for leaf in _leaves(child)]
    is_sequential = type(part).__module__ == "torch.nn.modules.container" and type(part).__name__ == "Sequential"
    inner = list(part) if is_sequential else getattr(part, "transforms", None)
    return [leaf for child in inner for leaf in _leaves(child)] if isinstance(inner, (list, tuple)) else [part]


def is_recipe(transform):
    """Whether Loader(transform=) is for the PIL image of each sample, as one with ToTensor is; False: it is called
    with each batch.

    InvalidError: it is made of torchvision's or timm's ops for images alone, and so may be either."""
    leaves = [(_known_class(part).__name__, _known_class(part).__module__.split(".")[0]) for part in _leaves(transform)]
    known = [name for name, package in leaves if package in ("torchvision", "timm") and name in _PARTS]
    if _FROM_PIL & set(known):
        return True
    if known and len(known) == len(leaves) and set(known) - _OF_TENSORS:
        raise _sluice.InvalidError(
            f"transform: {', '.join(known)} may be for each image or for each batch: give recipe= for each image, "
            "or transform=lambda images: ... for each batch")
    return False


def text(transform):
    """The pipeline of a torchvision transform, as text; a text is given back as it is.

    InvalidError, a ValueError: a part that no op stands for, with its name."""
    if isinstance(transform, str):
        return transform
    views = _views(transform)
    if views is not None:
        return _text_of_views(views)
    return ",".join(["decode", *_ops(transform)])


def explain(recipe):
    """A line for each part of a transform or preset, with its ops."""
    made = of(recipe)
    if isinstance(recipe, (str, Recipe)):
        rows = [("train", made.train)] + ([("val", made.val)] if made.val else [])
    elif _views(recipe) is not None:
        rows = [(f"view {i}: {repr(part).split(chr(10))[0]}", ",".join(_ops(part)))
                for i, view in enumerate(_views(recipe)) for part in view]
    else:
        parts = [part for part in getattr(recipe, "transforms", [recipe]) if type(part).__name__ != "RandomErasing"]
        rows = [(repr(part).split("\n")[0], ",".join(_ops(part)) or "nothing: images are RGB, of 8 bits, as they come")
                for part in parts]
    for name, arguments in (("RandomErasing", made.erasing), ("Mix", made.mix)):
        if arguments is not None:
            values = ", ".join(f"{key}={value!r}" for key, value in arguments.items())
            rows.append((f"each batch: {name}", f"{name}({values})"))
    if made.repeat_within_batch > 1:
        rows.append(("each epoch", f"repeat_within_batch={made.repeat_within_batch}"))
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:{width}}  {ops}" for name, ops in rows)
