"""The first tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

__all__ = ["branch_labels", "depends_on", "down_revision", "downgrade", "revision", "upgrade"]

revision = "board_0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make every table."""
    op.create_table(
        "state", sa.Column("id", sa.Integer, primary_key=True), sa.Column("version", sa.Integer, nullable=False)
    )
    op.create_table(
        "source",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("path", sa.String, nullable=False, unique=True),
        sa.Column("digest", sa.String, nullable=False),
        sa.Column("kind", sa.String, nullable=False),
        sa.Column("superseded", sa.Boolean, nullable=False),
    )
    op.create_table(
        "model",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("slug", sa.String, nullable=False, unique=True),
        sa.Column("name", sa.String, nullable=False),
        sa.Column("label", sa.String, nullable=False),
        sa.Column("kind", sa.String, nullable=False),
        sa.Column("identity", sa.String, nullable=False, unique=True),
        sa.Column("fingerprint", sa.String, nullable=False),
        sa.Column("note", sa.String, nullable=False),
        sa.Column("latency", sa.Float),
        sa.Column("parameters", sa.BigInteger),
        sa.Column("training_images", sa.BigInteger),
        sa.Column("cost_source", sa.String, nullable=False),
    )
    _benchmarks()
    _numbers()


def _benchmarks() -> None:
    op.create_table(
        "benchmark",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("slug", sa.String, nullable=False, unique=True),
        sa.Column("name", sa.String, nullable=False),
        sa.Column("fingerprint", sa.String, nullable=False),
        sa.Column("items_digest", sa.String, nullable=False),
        sa.Column("title", sa.String, nullable=False),
        sa.Column("task", sa.String, nullable=False),
        sa.Column("images_each", sa.Integer),
        sa.Column("texts_each", sa.Integer),
        sa.Column("n", sa.Integer, nullable=False),
        sa.Column("headline", sa.JSON, nullable=False),
        sa.Column("domain", sa.String, nullable=False),
        sa.Column("rival", sa.String, nullable=False),
    )
    op.create_index("ix_benchmark_name", "benchmark", ["name"])
    op.create_table(
        "item",
        sa.Column("benchmark_id", sa.Integer, sa.ForeignKey("benchmark.id"), primary_key=True),
        sa.Column("position", sa.Integer, primary_key=True),
        sa.Column("name", sa.String, nullable=False),
        sa.Column("unit", sa.String, nullable=False),
        sa.Column("cluster", sa.String, nullable=False),
        sa.Column("gold", sa.String, nullable=False),
        sa.Column("tags", sa.JSON, nullable=False),
        sa.Column("images", sa.JSON, nullable=False),
        sa.Column("texts", sa.JSON, nullable=False),
    )


def _numbers() -> None:
    op.create_table(
        "entry",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("model_id", sa.Integer, sa.ForeignKey("model.id"), nullable=False),
        sa.Column("benchmark_id", sa.Integer, sa.ForeignKey("benchmark.id"), nullable=False),
        sa.Column("source_id", sa.Integer, sa.ForeignKey("source.id"), nullable=False),
        sa.Column("started", sa.String, nullable=False),
        sa.Column("folder", sa.String, nullable=False),
        sa.Column("record", sa.JSON, nullable=False),
        sa.Column("run", sa.JSON, nullable=False),
        sa.Column("on_trust", sa.Boolean, nullable=False),
        sa.Column("tie_rule", sa.String, nullable=False),
        sa.Column("note", sa.String, nullable=False),
    )
    op.create_index("entry_of", "entry", ["benchmark_id", "model_id"], unique=True)
    op.create_index("ix_entry_model_id", "entry", ["model_id"])
    op.create_index("ix_entry_source_id", "entry", ["source_id"])
    op.create_table(
        "score",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("entry_id", sa.Integer, sa.ForeignKey("entry.id"), nullable=False),
        sa.Column("benchmark_id", sa.Integer, sa.ForeignKey("benchmark.id"), nullable=False),
        sa.Column("tag", sa.String, nullable=False),
        sa.Column("value_of", sa.String, nullable=False),
        sa.Column("metric", sa.String, nullable=False),
        sa.Column("value", sa.Float, nullable=False),
        sa.Column("low", sa.Float),
        sa.Column("high", sa.Float),
        sa.Column("chance", sa.Float),
        sa.Column("n", sa.Integer, nullable=False),
        sa.Column("ties", sa.Integer, nullable=False),
        sa.Column("tie_neutral", sa.Float),
        sa.Column("deviation", sa.Boolean, nullable=False),
        sa.Column("tier", sa.Integer),
    )
    op.create_index("score_of", "score", ["benchmark_id", "tag", "metric"])
    op.create_index("ix_score_entry_id", "score", ["entry_id"])
    op.create_table(
        "vector",
        sa.Column("entry_id", sa.Integer, sa.ForeignKey("entry.id"), primary_key=True),
        sa.Column("metric", sa.String, primary_key=True),
        sa.Column("data", sa.LargeBinary, nullable=False),
        sa.Column("tied", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "answer",
        sa.Column("entry_id", sa.Integer, sa.ForeignKey("entry.id"), primary_key=True),
        sa.Column("position", sa.Integer, primary_key=True),
        sa.Column("output", sa.Text, nullable=False),
    )


def downgrade() -> None:
    """Drop every table."""
    for table in ("answer", "vector", "score", "entry", "item", "benchmark", "model", "source", "state"):
        op.drop_table(table)
