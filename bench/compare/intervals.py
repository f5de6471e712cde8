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


def ratio_interval(theirs, ours, seed=1, resamples=RESAMPLES):
    """(ratio, low, high): the ratio of the medians theirs / ours, and its 95 % interval.

    The samples of a round belong together: what disturbed the machine then disturbed both. So rounds are drawn with
    replacement, as many as there are, both samples of each; the interval holds the middle 95 % of the ratios that come out.
    """
    rounds = list(zip(theirs, ours))
    ratio = median([a for a, _ in rounds]) / median([b for _, b in rounds])
    chance = random.Random(seed)
    ratios = []
    for _ in range(resamples):
        drawn = [chance.choice(rounds) for _ in rounds]
        ratios.append(median([a for a, _ in drawn]) / median([b for _, b in drawn]))
    ratios.sort()
    return ratio, ratios[int(0.025 * resamples)], ratios[min(resamples - 1, int(0.975 * resamples))]
