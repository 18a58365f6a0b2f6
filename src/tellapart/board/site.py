"""Every page of the board: its address, the function that gathers its content, its template."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tellapart.board.links import PATTERNS
from tellapart.board.views.agreement import AgreementPage, agreement_page
from tellapart.board.views.comparison import ChoosePage, ComparisonPage, choose_page, comparison_page
from tellapart.board.views.gallery import GalleryPage, gallery_page
from tellapart.board.views.heat_map import HeatMap, heat_map
from tellapart.board.views.items import ItemPage, ItemsPage, item_page, items_page
from tellapart.board.views.leaderboard import by_tag, leaderboard
from tellapart.board.views.many import ManyPage, compare_many
from tellapart.board.views.model import ModelPage, model_page
from tellapart.board.views.overview import all_benchmarks
from tellapart.board.views.pareto import ParetoPage, pareto_page
from tellapart.board.views.ranks import RanksPage, benchmark_ranks, ranks_page
from tellapart.board.views.rows import Leaderboard
from tellapart.board.views.view import View


@dataclass(frozen=True, slots=True)
class Page:
    """One kind of page.

    Attributes:
        gather: (session, settings, arguments of the address) -> its content.
        view: the class of that content.
        template: its file in `pages/`, without the ending.
    """

    name: str
    gather: Callable[..., View]
    view: type[View]
    template: str

    @property
    def pattern(self) -> str:
        """The address."""
        return PATTERNS[self.name]


#: In the order in which addresses are matched.
PAGES = {
    page.name: page
    for page in (
        Page("home", all_benchmarks, Leaderboard, "leaderboard"),
        Page("home_page", all_benchmarks, Leaderboard, "leaderboard"),
        Page("ranks", ranks_page, RanksPage, "ranks"),
        Page("pareto", pareto_page, ParetoPage, "pareto"),
        Page("pareto_over", pareto_page, ParetoPage, "pareto"),
        Page("choose", choose_page, ChoosePage, "choose"),
        Page("compare", comparison_page, ComparisonPage, "comparison"),
        Page("compare_many", compare_many, ManyPage, "many"),
        Page("model", model_page, ModelPage, "model"),
        Page("agreement", agreement_page, AgreementPage, "agreement"),
        Page("benchmark", leaderboard, Leaderboard, "leaderboard"),
        Page("by", by_tag, Leaderboard, "leaderboard"),
        Page("map", heat_map, HeatMap, "heat_map"),
        Page("benchmark_ranks", benchmark_ranks, RanksPage, "ranks"),
        Page("items", items_page, ItemsPage, "items"),
        Page("item", item_page, ItemPage, "item"),
        Page("gallery", gallery_page, GalleryPage, "gallery"),
        Page("gallery_page", gallery_page, GalleryPage, "gallery"),
    )
}
