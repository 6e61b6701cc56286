"""Fixed parts of a storage node's cores, one for each of its clients."""

LEAST_PART = 0.02
SAME = 0.05  # parts that differ by less are as good as equal


def whole_ways(cores, num_clients):
    """All ways to give each at least one of so many cores, and all of them to somebody."""
    if num_clients == 1:
        return [[cores]] if cores > 0 else []
    return [[first, *rest] for first in range(1, cores - num_clients + 2)
            for rest in whole_ways(cores - first, num_clients - 1)]


def _without_twins(ways, kinds):
    """Clients of one kind may be exchanged: of such ways the first."""
    found = {}
    for way in ways:
        key = tuple(sorted(zip(kinds, way)))
        found.setdefault(key, way)
    return list(found.values())


def ways(cores, kinds, best, most, has_quota):
    """Parts to compare with, as cores of each client, of clients of these kinds whose joint optimum
    has these shares: whole ones, of which the `most` nearest to it, where each client can have a
    core; else, where there can be a quota, equal ones and the optimum's."""
    num = len(kinds)
    if cores == int(cores) and cores >= num:
        found = _without_twins(whole_ways(int(cores), num), kinds)
        found.sort(key=lambda way: sum((one / cores - part) ** 2 for one, part in zip(way, best)))
        return found[:most]
    if not has_quota:
        return []
    found = [[cores / num] * num]
    if max(abs(part - 1 / num) for part in best) > SAME:
        found.append([max(part, LEAST_PART) * cores for part in best])
    return found
