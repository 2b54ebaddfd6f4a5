"""Prices with a mistake in them, for examples/pdb.json to find."""


def total(prices):
    cents = 0
    for price in prices:
        cents += int(price * 100)
    return cents / 100


print("total:", total([0.29, 1.13, 2.50]))
