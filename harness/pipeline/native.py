"""Tables of a corpus as DataFrame expressions: no row of events ever becomes a Python object.

    votes             who supported whom, in which term                          = checkers.facts.votes
    elections         term, winner, rounds, votes, how long                      = checkers.facts.elections, by winner
    split_votes       terms in which several stood and nobody won                = failover: split_votes
    windows           stretches in which a node certainly led                    = failover: what exposure is made of
    overlaps          two nodes certainly leading different terms at once        = failover: deposed_leader_exposure_ns
    faults            begin, end, victims, roles, outcome
    failovers         stages after each fault, censored where they were not reached    = failover: detect, elect, write
    availability      operations by minute of the run, and how they ended

Every table has ``run``, ``date`` and ``system``; times are ns since the run began. Where a property is written twice,
here and in a checker, tests on generated histories hold them equal. Leaves out partitions as a cause of failovers that
hit the leader: whether a cut took its majority is a question about graphs, which the checker answers (``leader_hit`` is
null there). A vote in a file of schema 1 is read from its JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

RUN = ("run", "date", "system")

ROUNDS = ("election_started", "campaign")
CAMPAIGNS = (*ROUNDS, "prevote_started")
"""As in ``checkers.failover``: names of the notes by which a node seeks to lead; the first two make a round."""

WRITES = ("append", "put", "cas", "write", "add", "enqueue", "publish", "propose", "txn")
"""As in ``checkers.base``."""

SURE_HITS = ("kill", "stop", "restart", "pause")
"""Kinds of faults that hit whom they name, and nobody else."""

MINUTE_NS = 60 * 10**9
BUCKET_NS = 10**9


def votes(events: DataFrame) -> DataFrame:
    """run, group, term, voter, incarnation, candidate, seq, at_ns."""
    from pyspark.sql import functions as sf

    told = sf.when(
        sf.col("rest").contains('"candidate":"'), sf.get_json_object("rest", "$.data.candidate")
    )  # a name only, as the column has it
    rows = events.filter("type = 'traced' and name = 'vote' and source = 'shell' and term > 0")
    return (
        rows.withColumn("candidate", sf.coalesce("candidate", told))
        .filter("candidate is not null and candidate != ''")
        .select(
            *RUN,
            "group",
            "term",
            sf.col("node").alias("voter"),
            "incarnation",
            "candidate",
            "seq",
            _at().alias("at_ns"),
        )
    )


def elections(events: DataFrame) -> DataFrame:
    """run, group, term, winner, seq, at_ns, votes, rounds, began_ns, duration_ns.

    One row a winner (two of one term are a violation, and two rows). ``rounds``: terms in which somebody stood since
    the term that was won before. ``began_ns``: the first note of these rounds; null where nobody told of one.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as sf

    won = _elected(events)
    by_winner = won.groupBy(*RUN, "group", "term", sf.col("node").alias("winner")).agg(
        sf.min("seq").alias("seq"), sf.min("at_ns").alias("at_ns"), sf.max("voters").alias("votes")
    )
    terms = won.select(*RUN, "group", "term").distinct()
    order = Window.partitionBy(*RUN, "group").orderBy("term")
    before = terms.withColumn("before", sf.coalesce(sf.lag("term").over(order), sf.lit(0)))
    stood = _traced(events, ROUNDS).select("run", "group", sf.col("term").alias("stood"), _at().alias("stood_at"))
    rounds = (
        before.join(stood, ["run", "group"])
        .filter("stood > before and stood <= term")
        .groupBy("run", "group", "term")
        .agg(sf.countDistinct("stood").alias("rounds"), sf.min("stood_at").alias("began_ns"))
    )
    return (
        by_winner.join(rounds, ["run", "group", "term"], "left")
        .withColumn("rounds", sf.coalesce("rounds", sf.lit(0)))
        .withColumn("duration_ns", sf.greatest(sf.col("at_ns") - sf.col("began_ns"), sf.lit(0)))
        .select(*RUN, "group", "term", "winner", "seq", "at_ns", "votes", "rounds", "began_ns", "duration_ns")
    )


def split_votes(events: DataFrame) -> DataFrame:
    """run, group, term, candidates: terms in which several voted for themselves and nobody was elected."""
    from pyspark.sql import functions as sf

    stood = votes(events).filter("voter = candidate").groupBy(*RUN, "group", "term")
    several = stood.agg(sf.countDistinct("voter").alias("candidates")).filter("candidates > 1")
    return several.join(_elected(events), ["run", "group", "term"], "left_anti").select(
        *RUN, "group", "term", "candidates"
    )


def windows(events: DataFrame) -> DataFrame:
    """run, group, node, incarnation, term, lo_ns, hi_ns: between two polls in a row that both said that it leads."""
    from pyspark.sql import Window
    from pyspark.sql import functions as sf

    polls = events.filter("type = 'observed'").select(
        *RUN, "group", "node", "incarnation", "term", "leads", "seq", "lo", "hi"
    )
    order = Window.partitionBy("run", "group", "node").orderBy("hi", "seq")
    before = {name: sf.lag(name).over(order).alias(f"{name}_before") for name in ("incarnation", "term", "leads", "hi")}
    return (
        polls.select("*", *before.values())
        .filter("leads and term > 0 and leads_before and term_before = term and incarnation_before = incarnation")
        .filter("lo > hi_before")
        .select(
            *RUN,
            "group",
            "node",
            "incarnation",
            "term",
            sf.col("hi_before").alias("lo_ns"),
            sf.col("lo").alias("hi_ns"),
        )
    )


def overlaps(events: DataFrame) -> DataFrame:
    """run, group, lo_ns, hi_ns: stretches, none touching another, in which two nodes led different terms."""
    from pyspark.sql import functions as sf

    # Only what shares a second can overlap: every window against every other would be millions of pairs a run.
    seconds = sf.sequence(sf.floor(sf.col("lo_ns") / BUCKET_NS), sf.floor(sf.col("hi_ns") / BUCKET_NS))
    led = windows(events).withColumn("bucket", sf.explode(seconds))
    one, other = led.alias("a"), led.alias("b")
    pairs = (
        one.join(other, ["run", "group", "bucket"])
        .filter("a.node < b.node and a.term != b.term and a.lo_ns < b.hi_ns and b.lo_ns < a.hi_ns")
        .select(
            "run",
            "a.date",
            "a.system",
            "group",
            sf.greatest("a.lo_ns", "b.lo_ns").alias("lo_ns"),
            sf.least("a.hi_ns", "b.hi_ns").alias("hi_ns"),
        )
    )
    return _merged(pairs, (*RUN, "group"))


def faults(events: DataFrame) -> DataFrame:
    """run, fault, kind, victims, roles, outcome, begin_lo_ns, begin_hi_ns, end_outcome, end_lo_ns, end_hi_ns.

    ``victims`` (array) and ``roles`` (map: host → what it was). One row a fault that began.
    """
    from pyspark.sql import functions as sf

    rows = events.filter("type = 'fault'")
    ends = (
        rows.filter("phase = 'end'")
        .groupBy("run", "fault")
        .agg(
            sf.max_by("outcome", "seq").alias("end_outcome"),
            sf.max_by("lo", "seq").alias("end_lo_ns"),
            sf.max_by("hi", "seq").alias("end_hi_ns"),
        )
    )
    return _begun(events).join(ends, ["run", "fault"], "left")


def failovers(events: DataFrame) -> DataFrame:
    """run, fault, kind, leader_hit, since_ns, until_ns, rounds, and of each stage its ns and whether it is censored.

    For every fault that was certainly in force, from the moment since which it was: ``detect`` (somebody else seeks to
    lead), ``elect`` (a leader of a later term), ``write`` (the first write acknowledged after that). A stage not
    reached before the next fault, or the end of the run, is censored there.
    """
    from pyspark.sql import functions as sf

    # All that matters of a run is few rows, once writes are reduced to the first after each election: one join will do.
    moments = _led(events).unionByName(_campaigns(events), allowMissingColumns=True)
    inside = (sf.col("moment") >= sf.col("since_ns")) & (sf.col("moment") <= sf.col("until_ns"))
    led = sf.struct("moment", "in", "write_at")
    ran = sf.struct("moment", "group", "in", "name")
    spans = _fault_spans(events)
    found = (
        spans.join(moments, "run", "left")
        .groupBy(*spans.columns)
        .agg(
            sf.max(sf.when(sf.col("polled") & (sf.col("moment") <= sf.col("since_ns")), sf.col("in"))).alias("term"),
            sf.collect_list(sf.when(inside & sf.col("polled").isNotNull(), led)).alias("led"),
            sf.collect_list(sf.when(inside & (sf.col("node") != sf.col("leader")), ran)).alias("ran"),
        )
    )
    term = sf.greatest(sf.coalesce("term", sf.lit(0)), sf.lit(0))
    elect = sf.array_min(sf.filter("led", lambda one: one["in"] > sf.col("term")))
    found = found.withColumn("term", term).withColumn("elect", elect).withColumn("elect_at", sf.col("elect.moment"))
    write = sf.when(sf.col("elect.write_at") <= sf.col("until_ns"), sf.col("elect.write_at"))
    won = sf.coalesce("elect_at", "until_ns")
    stood = sf.filter("ran", lambda one: one["name"].isin(*ROUNDS) & (one["moment"] <= won))
    found = found.withColumns(
        {
            "detect_at": sf.array_min(sf.transform("ran", lambda one: one["moment"])),
            "write_at": write,
            "rounds": sf.size(sf.array_distinct(sf.transform(stood, lambda one: sf.struct(one["group"], one["in"])))),
        }
    )
    since, rest = sf.col("since_ns"), sf.greatest(sf.col("until_ns") - sf.col("since_ns"), sf.lit(0))
    stages = []
    for stage in ("detect", "elect", "write"):
        at = sf.col(f"{stage}_at")
        stages += [sf.coalesce(at - since, rest).alias(f"{stage}_ns"), at.isNull().alias(f"{stage}_censored")]
    return found.select(*RUN, "fault", "kind", "leader_hit", "seq", "since_ns", "until_ns", "rounds", *stages)


def availability(events: DataFrame) -> DataFrame:
    """run, minute, invoked, ok, failed, unknown, writes, writes_ok: by the minute in which operations were invoked."""
    from pyspark.sql import functions as sf

    returns = _returns(events)
    asked = events.filter("type = 'invoke'").select(
        *RUN, "op", sf.col("name").isin(*WRITES).alias("writes"), sf.floor(sf.col("t") / MINUTE_NS).alias("minute")
    )
    return (
        asked.join(returns, ["run", "op"], "left")
        .groupBy(*RUN, "minute")
        .agg(
            sf.count("*").alias("invoked"),
            _count(sf.col("status") == "ok").alias("ok"),
            _count(sf.col("status") == "fail").alias("failed"),
            _count(sf.coalesce("status", sf.lit("info")) == "info").alias("unknown"),
            _count(sf.col("writes")).alias("writes"),
            _count(sf.col("writes") & (sf.col("status") == "ok")).alias("writes_ok"),
        )
    )


TABLES: Mapping[str, Callable[[Any], Any]] = {
    "votes": votes,
    "elections": elections,
    "split-votes": split_votes,
    "windows": windows,
    "overlaps": overlaps,
    "faults": faults,
    "failovers": failovers,
    "availability": availability,
}
"""Name → what makes the table of events."""


# --- parts ------------------------------------------------------------------------------------------------------


def _at() -> Column:
    """The latest moment at which an event can have happened."""
    from pyspark.sql import functions as sf

    return sf.col("hi")


def _traced(events: DataFrame, names: tuple[str, ...]) -> DataFrame:
    from pyspark.sql import functions as sf

    return events.filter("type = 'traced'").filter(sf.col("name").isin(*names))


def _elected(events: DataFrame) -> DataFrame:
    """All ``elected`` events, whoever says so, with the votes that they name."""
    from pyspark.sql import functions as sf

    told = sf.json_array_length(sf.get_json_object("rest", "$.data.voters")).cast("bigint")
    rows = _traced(events, ("elected",)).filter("term > 0")
    return rows.select(
        *RUN, "group", "term", "node", "seq", _at().alias("at_ns"), sf.coalesce("voters", told).alias("voters")
    )


def _begun(events: DataFrame) -> DataFrame:
    """Faults that began, whatever came of them."""
    from pyspark.sql import functions as sf

    return events.filter("type = 'fault' and phase = 'begin'").select(
        *RUN,
        "fault",
        sf.col("name").alias("kind"),
        sf.from_json(sf.get_json_object("rest", "$.victims"), "array<string>").alias("victims"),
        sf.from_json(sf.get_json_object("rest", "$.roles"), "map<string,string>").alias("roles"),
        "outcome",
        "seq",
        sf.col("lo").alias("begin_lo_ns"),
        sf.col("hi").alias("begin_hi_ns"),
    )


def _fault_spans(events: DataFrame) -> DataFrame:
    """Faults in force, with their leader, and the span in which what follows is theirs."""
    from pyspark.sql import Window
    from pyspark.sql import functions as sf

    others = sf.collect_list(sf.when(sf.col("outcome") != "skipped", sf.col("begin_lo_ns")))
    begun = _begun(events).withColumn("others", others.over(Window.partitionBy("run")))
    since = sf.col("begin_hi_ns")
    following = sf.array_min(sf.filter("others", lambda lo: lo > since))
    stop = sf.min(sf.when((sf.col("type") == "mark") & (sf.col("name") == "stop"), sf.struct("seq", "t")))
    ends = events.groupBy("run").agg(sf.coalesce(stop.getField("t"), sf.max("t")).alias("end_ns"))
    led = sf.map_keys(sf.map_filter("roles", lambda _, role: sf.lower(role) == "leader"))
    leader = sf.coalesce(sf.try_element_at(led, sf.lit(1)), sf.lit(""))
    hit = sf.when(sf.col("kind").isin(*SURE_HITS), leader != "").when(sf.col("kind") != "partition", sf.lit(False))
    return (
        begun.filter("outcome = 'installed'")
        .join(ends, "run")
        .select(
            *RUN,
            "fault",
            "kind",
            "seq",
            leader.alias("leader"),
            hit.alias("leader_hit"),
            since.alias("since_ns"),
            sf.coalesce(following, "end_ns").alias("until_ns"),
        )
    )


def _led(events: DataFrame) -> DataFrame:
    """run, in (a term), moment, polled, write_at: elections, and when a term was first told to be led; and the first
    write acknowledged from then on."""
    from pyspark.sql import Window
    from pyspark.sql import functions as sf

    nothing = sf.lit(None)
    polls = events.filter("type = 'observed' and leads").groupBy("run", "term").agg(sf.min("hi").alias("moment"))
    polls = polls.select("run", sf.col("term").alias("in"), "moment", sf.lit(True).alias("polled"))
    won = _elected(events).select(
        "run",
        sf.col("term").alias("in"),
        sf.col("at_ns").alias("moment"),
        sf.lit(False).alias("polled"),
    )
    writes = _writes(events).select(
        "run", nothing.cast("bigint").alias("in"), "moment", nothing.cast("boolean").alias("polled")
    )
    # Backwards: a frame that grows costs a step a row, one that shrinks costs all that is left of it.
    backwards = Window.partitionBy("run").orderBy(sf.desc("moment"))
    later = backwards.rangeBetween(Window.unboundedPreceding, Window.currentRow)
    acked = sf.min(sf.when(sf.col("polled").isNull(), sf.col("moment"))).over(later)
    return polls.unionByName(won).unionByName(writes).withColumn("write_at", acked).filter("polled is not null")


def _campaigns(events: DataFrame) -> DataFrame:
    """run, group, in (a term), name, node, moment: notes by which a node seeks to lead."""
    from pyspark.sql import functions as sf

    rows = _traced(events, CAMPAIGNS)
    return rows.select("run", "group", sf.col("term").alias("in"), "name", "node", _at().alias("moment"))


def _returns(events: DataFrame) -> DataFrame:
    """The first return of each operation."""
    from pyspark.sql import functions as sf

    rows = events.filter("type = 'return'").groupBy("run", "op")
    return rows.agg(sf.min_by("status", "seq").alias("status"))


def _writes(events: DataFrame) -> DataFrame:
    """Moments at which a write was acknowledged."""
    from pyspark.sql import functions as sf

    written = events.filter("type = 'invoke'").filter(sf.col("name").isin(*WRITES)).select("run", "op")
    acked = events.filter("type = 'return' and status = 'ok'").select("run", "op", sf.col("t").alias("moment"))
    return acked.join(written, ["run", "op"], "left_semi").select("run", "moment")


def _merged(rows: DataFrame, keys: tuple[str, ...]) -> DataFrame:
    """Stretches of one key that touch or overlap, made one."""
    from pyspark.sql import Window
    from pyspark.sql import functions as sf

    order = Window.partitionBy(*keys).orderBy("lo_ns", "hi_ns")
    reached = sf.max("hi_ns").over(order.rowsBetween(Window.unboundedPreceding, -1))
    begins = sf.when(reached.isNull() | (sf.col("lo_ns") > reached), 1).otherwise(0)
    numbered = rows.withColumn("begins", begins).withColumn("stretch", sf.sum("begins").over(order))
    merged = numbered.groupBy(*keys, "stretch").agg(sf.min("lo_ns").alias("lo_ns"), sf.max("hi_ns").alias("hi_ns"))
    return merged.drop("stretch")


def _count(condition: Column) -> Column:
    from pyspark.sql import functions as sf

    return sf.sum(sf.when(condition, 1).otherwise(0))
