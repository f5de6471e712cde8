"""Centres and intervals of the rounds' samples."""
import math
import random
import statistics

RESAMPLES = 2000


def median(values):
    """The middle value; of two, their mean."""
    return statistics.median(values)


def quartiles(values):
    """Lower and upper quartile; of fewer than 3 values, the least and the greatest."""
    if len(values) < 3:
        return min(values), max(values)
    lower, _, upper = statistics.quantiles(values, n=4, method="inclusive")
    return lower, upper


def geometric_mean(values):
    """Of positive values; None of nothing."""
    return math.exp(statistics.fmean(math.log(value) for value in values)) if values else None


def paired_interval(figure, *samples, seed=1, resamples=RESAMPLES):
    """(figure, low, high): figure(list, ...) of the samples, and its 95 % interval.

    The samples of a round belong together: what disturbed the machine then disturbed all. So rounds are drawn with
    replacement, as many as there are, all samples of each; the interval holds the middle 95 % of the figures that come out.
    """
    rounds = list(zip(*samples))
    chance = random.Random(seed)
    found = sorted(figure(*zip(*(chance.choice(rounds) for _ in rounds))) for _ in range(resamples))
    return figure(*zip(*rounds)), found[int(0.025 * resamples)], found[min(resamples - 1, int(0.975 * resamples))]


def ratio_interval(theirs, ours, seed=1, resamples=RESAMPLES):
    """(ratio, low, high): the ratio of the medians theirs / ours, and its 95 % interval."""
    return paired_interval(lambda a, b: median(a) / median(b), theirs, ours, seed=seed, resamples=resamples)
