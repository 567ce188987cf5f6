"""Order and cycles of a directed graph, without recursion, in time linear in its edges.

Nodes are full names; ``feeds[a]`` are the nodes that ``a`` reads. All results depend on names only, never on
the order in which models were found.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush

__all__ = ["cycles", "reachable", "topological"]

Reads = Mapping[str, Sequence[str]]


def topological(reads: Reads) -> list[str]:
    """Return the nodes so that each comes after all that it reads; by name where that leaves a choice.

    Nodes on a cycle, and those that depend on one, are left out.
    """
    waiting = {node: len(set(found)) for node, found in reads.items()}
    readers: dict[str, list[str]] = {node: [] for node in reads}
    for node, found in reads.items():
        for upstream in set(found):
            readers[upstream].append(node)
    ready = [node for node, count in waiting.items() if not count]
    heapify(ready)
    ordered: list[str] = []
    while ready:
        node = heappop(ready)
        ordered.append(node)
        for reader in readers[node]:
            waiting[reader] -= 1
            if not waiting[reader]:
                heappush(ready, reader)
    return ordered


def reachable(start: Iterable[str], reads: Reads) -> set[str]:
    """Return all nodes that can be reached, ``start`` included."""
    found = set(start)
    todo = list(found)
    while todo:
        for other in reads.get(todo.pop(), ()):
            if other not in found:
                found.add(other)
                todo.append(other)
    return found


def cycles(reads: Reads) -> list[tuple[list[str], list[str]]]:
    """Return each knot of nodes that read each other: its members, and one shortest cycle through the first
    of them.

    A cycle begins and ends with the same node.
    """
    found = []
    for knot in _knots(reads):
        members = set(knot)
        if len(knot) > 1 or knot[0] in reads[knot[0]]:
            found.append((sorted(knot), _shortest_cycle(min(knot), members, reads)))
    return sorted(found)


def _shortest_cycle(start: str, members: set[str], reads: Reads) -> list[str]:
    came_from: dict[str, str] = {}
    todo = deque([start])
    while todo:
        node = todo.popleft()
        for other in sorted(set(reads[node]) & members):
            if other == start:
                path = [start, node]
                while path[-1] != start:
                    path.append(came_from[path[-1]])
                return path[::-1] if node != start else [start, start]
            if other not in came_from:
                came_from[other] = node
                todo.append(other)
    return [start]  # not reached: every member of a knot lies on a cycle


def _knots(reads: Reads) -> list[list[str]]:
    """Return the strongly connected components (Tarjan's algorithm with its stack made explicit)."""
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    on_stack: set[str] = set()
    stack: list[str] = []
    knots: list[list[str]] = []
    for root in reads:
        if root in number:
            continue
        number[root] = low[root] = len(number)
        stack.append(root)
        on_stack.add(root)
        work = [(root, iter(reads[root]))]
        while work:
            node, others = work[-1]
            for other in others:
                if other not in number:
                    number[other] = low[other] = len(number)
                    stack.append(other)
                    on_stack.add(other)
                    work.append((other, iter(reads[other])))
                    break
                if other in on_stack:
                    low[node] = min(low[node], number[other])
            else:
                work.pop()
                if work:
                    parent = work[-1][0]
                    low[parent] = min(low[parent], low[node])
                if low[node] == number[node]:
                    knot = []
                    while True:
                        member = stack.pop()
                        on_stack.discard(member)
                        knot.append(member)
                        if member == node:
                            break
                    knots.append(knot)
    return knots
