from decimal import Decimal

THIRD = Decimal(1) / 3
