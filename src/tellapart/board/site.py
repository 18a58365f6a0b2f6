"""Every page of the board: its address, the function that gathers it, its template."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tellapart.board.links import PATTERNS
from tellapart.board.views.comparison import ChoosePage, ComparisonPage, choose_page, comparison_page
from tellapart.board.views.gallery import GalleryPage, gallery_page
from tellapart.board.views.items import ItemPage, ItemsPage, item_page, items_page
from tellapart.board.views.leaderboard import Leaderboard, all_benchmarks, by_tag, leaderboard
from tellapart.board.views.model import ModelPage, model_page
from tellapart.board.views.pareto import ParetoPage, pareto_page
from tellapart.board.views.ranks import RanksPage, benchmark_ranks, ranks_page
from tellapart.board.views.view import View

__all__ = ["PAGES", "Page"]


@dataclass(frozen=True, slots=True)
class Page:
    """One kind of page.

    Attributes:
        gather: (session, settings, arguments of the address) -> what it shows.
        view: the class of that.
        template: its file in `pages/`, without the ending.

    >>> PAGES["home"].pattern
    '/'
    """

    name: str
    gather: Callable[..., View]
    view: type[View]
    template: str

    @property
    def pattern(self) -> str:
        """The address.

        >>> PAGES["model"].pattern
        '/models/{slug}'
        """
        return PATTERNS[self.name]


def _pages(*rows: tuple[str, Callable[..., Any], type[View], str]) -> dict[str, Page]:
    return {name: Page(name, gather, view, template) for name, gather, view, template in rows}


#: In the order in which addresses are matched.
PAGES = _pages(
    ("home", all_benchmarks, Leaderboard, "leaderboard"),
    ("ranks", ranks_page, RanksPage, "ranks"),
    ("pareto", pareto_page, ParetoPage, "pareto"),
    ("choose", choose_page, ChoosePage, "choose"),
    ("compare", comparison_page, ComparisonPage, "comparison"),
    ("model", model_page, ModelPage, "model"),
    ("benchmark", leaderboard, Leaderboard, "leaderboard"),
    ("by", by_tag, Leaderboard, "leaderboard"),
    ("benchmark_ranks", benchmark_ranks, RanksPage, "ranks"),
    ("items", items_page, ItemsPage, "items"),
    ("item", item_page, ItemPage, "item"),
    ("gallery", gallery_page, GalleryPage, "gallery"),
    ("gallery_page", gallery_page, GalleryPage, "gallery"),
)
