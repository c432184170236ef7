"""Whether memory grows: a line through the means of batches, with the error of its slope."""

# The samples that are judged are divided into this many batches of equal length. Successive samples depend on each other,
# since responses and faults last longer than the time between two of them; the means of batches hardly do.
BATCHES = 10
# Student's t for a one-sided probability of 2.5 % and BATCHES - 2 degrees of freedom.
T = 2.306
# Seconds until caches are full and all kinds of faults have occurred. Runs that are not twice as long judge their
# second half instead.
WARM = 20 * 60


def begin(samples):
    """Returns the number of seconds at which judging begins."""
    first, last = samples[0]["seconds"], samples[-1]["seconds"]
    return first + min(WARM, (last - first) / 2)


def line_through(points):
    """Returns the slope of the least-squares line and its standard error. Needs at least three points."""
    count = len(points)
    x, y = sum(one[0] for one in points) / count, sum(one[1] for one in points) / count
    below = sum((one[0] - x) ** 2 for one in points)
    slope = sum((one[0] - x) * (one[1] - y) for one in points) / below
    rest = sum((one[1] - y - slope * (one[0] - x)) ** 2 for one in points)
    return slope, (rest / (count - 2) / below) ** 0.5


def batches(points):
    """Returns the middle and the mean of each batch. Empty batches are left out."""
    first, length = points[0][0], (points[-1][0] - points[0][0]) / BATCHES
    found = [[] for _ in range(BATCHES)]
    for x, y in points:
        found[min(BATCHES - 1, int((x - first) / length))].append((x, y))
    return [tuple(sum(values) / len(batch) for values in zip(*batch)) for batch in found if batch]


def judged(samples, value):
    """Returns the growth of `value` (of a sample) over the judged time, and its error with a probability of 97.5 %.
    Memory grows if growth less error is above zero. `None` if there are too few samples.
    """
    since = begin(samples)
    points = [(one["seconds"], value(one)) for one in samples if one["seconds"] >= since]
    means = batches(points) if len(points) >= 2 * BATCHES else []
    if len(means) < BATCHES:
        return None
    slope, error = line_through(means)
    seconds = points[-1][0] - points[0][0]
    mean = sum(y for _, y in points) / len(points)
    return {
        "since": round(since), "seconds": round(seconds), "growth": slope * seconds, "error": T * error * seconds,
        "mean": mean, "most": max(y for _, y in points),
    }
