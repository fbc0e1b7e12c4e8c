"""The figures of plan.py: ratios, means beside their goals, growth."""

import math
from typing import Any

Row = dict[str, Any]

MACHINES = ("a100-40gb", "titan-x-maxwell")
POLICIES = ("auto", "recompute", "offload")
MOST_MEAN = {70: 1.01, 50: 1.03, 30: 1.08, 20: 1.20}  # By percent of the plain peak.
MOST_ALONE = 1.5
TOLERANCE = 1.0005  # In comparing two policies: layouts differ by a few bytes.


def geometric_mean(numbers: list[float]) -> float | None:
    """None of none."""
    return math.exp(sum(map(math.log, numbers)) / len(numbers)) if numbers else None


def ratio_of(said: Row) -> float | None:
    """Predicted time over bound, of what `fitstep plan` said; None where there is no plan."""
    plan = said.get("certificate")
    return plan["predicted_ps"] / plan["bound_ps"] if plan else None


def ratios_of(said: dict[str, Row]) -> dict[str, float | None]:
    """Times of all policies over one bound, which must hold for all of them: the lowest. That of a
    policy with fewer moves may be higher."""
    plans = {policy: one.get("certificate") for policy, one in said.items()}
    bound = min((plan["bound_ps"] for plan in plans.values() if plan), default=None)
    return {policy: plan and plan["predicted_ps"] / bound for policy, plan in plans.items()}


def joint_is_best(ratios: dict[str, float | None]) -> bool:
    """Whether no single move found a faster plan, or one where both together found none."""
    joint = ratios["auto"]
    others = [r for policy, r in ratios.items() if policy != "auto" and r is not None]
    return all(joint is not None and joint <= other * TOLERANCE for other in others)


def summary(rows: list[Row]) -> list[Row]:
    """Geometric means beside their goals, by machine and share of the plain peak; each over the
    programs for which the policy found a plan."""
    found: list[Row] = []
    for machine in MACHINES:
        for percent, most in MOST_MEAN.items():
            counted = [
                row for row in rows
                if (row["machine"], row["percent"]) == (machine, percent) and not row["below_floor"]
            ]  # fmt: skip
            solved = {
                policy: [r for row in counted if (r := row["ratios"].get(policy)) is not None]
                for policy in POLICIES
            }
            joint, mean = solved["auto"], geometric_mean(solved["auto"])
            found.append(
                {"machine": machine, "percent": percent, "rows": len(counted), "goal": most,
                 "solved": {policy: len(ratios) for policy, ratios in solved.items()},
                 "means": {policy: geometric_mean(ratios) for policy, ratios in solved.items()},
                 "worst": max(joint, default=None),
                 "reached": mean is not None and mean <= most and max(joint) <= MOST_ALONE
                            and len(joint) == len(counted)}
            )  # fmt: skip
    return found


def exponent(rows: list[Row], column: str) -> float | None:
    """The slope of log seconds over log ops, by least squares over the sizes that ended."""
    points = [
        (math.log(row["ops"]), math.log(row[column])) for row in rows if row["points"] is not None
    ]
    if len(points) < 2:
        return None
    x_mean = sum(x for x, _ in points) / len(points)
    y_mean = sum(y for _, y in points) / len(points)
    return sum((x - x_mean) * (y - y_mean) for x, y in points) / sum(
        (x - x_mean) ** 2 for x, _ in points
    )
