"""The views of DINOv2's and DINOv3's DataAugmentationDINO, for sluice.recipes."""

# Attributes of both, and additions of DINOv3 that no option stands for.
_PARTS = ("geometric_augmentation_global", "geometric_augmentation_local", "global_transfo1", "global_transfo2", "local_transfo",
          "local_crops_number")
_OFF = ("teacher_no_color_jitter", "local_crops_subset_of_global_crops", "share_color_jitter")


class Shared:
    """A part whose ops have draws of the numbers from `first` on, the same in all views."""

    def __init__(self, part, first):
        self.transforms = [part]
        self.first = first

    def __repr__(self):
        return repr(self.transforms[0])


def is_dino(recipe):
    return all(hasattr(recipe, name) for name in _PARTS)


def views_of(recipe, refuse):
    """The parts of each view: two global crops, the two of the Gram teacher if there are any, and the local crops."""
    for name in _OFF:
        if getattr(recipe, name, None):
            refuse(recipe, f"{name}: write it as views([...:draws=1],...), in which ops with the same number draw the same "
                           "(docs/RECIPES.md#views)")
    crop, local = recipe.geometric_augmentation_global, recipe.geometric_augmentation_local
    locals_ = [[local, recipe.local_transfo]] * recipe.local_crops_number
    size = getattr(recipe, "gram_teacher_crops_size", None)
    if size is None:
        return [[crop, recipe.global_transfo1], [crop, recipe.global_transfo2], *locals_]
    if not recipe.gram_teacher_no_distortions:
        refuse(recipe, "gram_teacher_no_distortions=False: it resizes images after Normalize, as floats")
    # Both crops of a pair begin as one of the larger size; resize_gram_teacher does nothing to those that have it.
    resize = [recipe.resize_gram_teacher] if size < recipe.global_crops_size else []
    crops = Shared(crop, 1), Shared(crop, 11)
    return [[crops[0], recipe.global_transfo1], [crops[1], recipe.global_transfo2],
            *[[shared, *resize, recipe.normalize] for shared in crops], *locals_]
