"""Where a module of an earlier version is now: the one table from old dotted names to new ones.

Guarantees: a name that is still right is answered as it is, and so is one that is not ours; the longest entry of the
table decides. Out of scope: names within modules, and importing (``of_import`` only says what to write instead).
"""

from __future__ import annotations

import ast
from collections.abc import Mapping

PACKAGES = ("harness", "nemesis", "checkers", "workloads", "clusters")
"""What was installed at top level up to 0.1.0."""
MODULES: Mapping[str, str] = {
    "checkers.windows": "checkers.liveness_windows",
    "clusters.protocols": "clusters.targets",
    "clusters.protocols.dledger.broken": "clusters.targets.dledger.planted_bugs",
    "clusters.protocols.joyqueue.broken": "clusters.targets.joyqueue.planted_bugs",
    "clusters.protocols.kraft.broken": "clusters.targets.kraft.planted_bugs",
    "clusters.protocols.master_slave.broken": "clusters.targets.master_slave.planted_bugs",
    "clusters.protocols.nacos.broken": "clusters.targets.nacos.planted_bugs",
    "clusters.protocols.paxos.broken": "clusters.targets.paxos.planted_bugs",
    "clusters.protocols.raft.broken": "clusters.targets.raft.planted_bugs",
    "clusters.protocols.raft.broken_for_clients": "clusters.targets.raft.planted_bugs",
    "clusters.protocols.zk_ephemeral.broken": "clusters.targets.zk_ephemeral.planted_bugs",
    "clusters.ssh.rules": "clusters.ssh.permissions",
    "harness.core.bounds": "harness.core.plausible",
    "harness.core.known": "harness.core.known_findings",
    "harness.core.protocols": "harness.core.interfaces",
    "harness.engine.armed": "harness.engine.run.armed_triggers",
    "harness.engine.artifacts": "harness.engine.run.artifacts",
    "harness.engine.calibrating": "harness.engine.run.measurement",
    "harness.engine.campaign_options": "harness.engine.campaign.options_record",
    "harness.engine.campaign_rows": "harness.engine.campaign.row_file",
    "harness.engine.campaign_virtual": "harness.engine.campaign.virtual_seeds",
    "harness.engine.continuing": "harness.engine.run.continuation",
    "harness.engine.course": "harness.engine.run.lifecycle",
    "harness.engine.describing": "harness.engine.host.description_text",
    "harness.engine.director": "harness.engine.run.director",
    "harness.engine.doctor": "harness.engine.host.doctor",
    "harness.engine.doctor_file": "harness.engine.host.description_check",
    "harness.engine.drawing": "harness.engine.run.schedule_draw",
    "harness.engine.entering": "harness.engine.host.namespace_entry",
    "harness.engine.exam_jobs": "harness.engine.exam.exam_tasks",
    "harness.engine.exam_live": "harness.engine.exam.live_runs",
    "harness.engine.foreign": "harness.engine.replay.foreign_history",
    "harness.engine.garbage": "harness.engine.run.garbage_collection",
    "harness.engine.heal": "harness.engine.host.healing",
    "harness.engine.judge": "harness.engine.run.judge",
    "harness.engine.kept": "harness.engine.campaign.resumable_tasks",
    "harness.engine.live": "harness.engine.run.live_world",
    "harness.engine.loop": "harness.engine.run.virtual_loop",
    "harness.engine.model": "harness.engine.run.options",
    "harness.engine.nemesis_driver": "harness.engine.run.nemesis_driver",
    "harness.engine.night": "harness.engine.nightly.night",
    "harness.engine.night_file": "harness.engine.nightly.night_file",
    "harness.engine.night_found": "harness.engine.nightly.new_findings",
    "harness.engine.night_order": "harness.engine.nightly.run_order",
    "harness.engine.night_process": "harness.engine.nightly.run_process",
    "harness.engine.night_rows": "harness.engine.nightly.night_rows",
    "harness.engine.ops": "harness.engine.run.op_pacing",
    "harness.engine.planning": "harness.engine.run.planning",
    "harness.engine.poller": "harness.engine.run.status_poller",
    "harness.engine.refailing": "harness.engine.replay.failure_check",
    "harness.engine.rehearsal": "harness.engine.run.rehearsal",
    "harness.engine.replaying": "harness.engine.replay.stored_run",
    "harness.engine.runner": "harness.engine.run.runner",
    "harness.engine.scenarios": "harness.engine.run.scenario_lookup",
    "harness.engine.shadow": "harness.engine.host.shadowing_packages",
    "harness.engine.shrinking": "harness.engine.replay.shrinker",
    "harness.engine.spreading": "harness.engine.campaign.worker_processes",
    "harness.engine.trials": "harness.engine.replay.failure_rate",
    "harness.engine.trigger_figures": "harness.engine.run.trigger_figures",
    "harness.engine.trust": "harness.engine.run.file_trust",
    "harness.engine.view": "harness.engine.run.cluster_view",
    "harness.engine.virtual": "harness.engine.run.virtual_run",
    "harness.engine.world": "harness.core.world",
    "harness.pipeline.known": "harness.pipeline.known_regressions",
    "harness.report.again": "harness.commands.replay",
    "harness.report.catalogue": "harness.commands.listing",
    "harness.report.corpus": "harness.commands.corpus",
    "harness.report.demonstration": "harness.commands.demo",
    "harness.report.examination": "harness.commands.exam",
    "harness.report.exporting": "harness.commands.export",
    "harness.report.foreign": "harness.commands.check_foreign",
    "harness.report.machine": "harness.report.json_objects",
    "harness.report.recheck": "harness.commands.check",
    "harness.report.redraw": "harness.commands.report",
    "harness.report.rerun_node": "harness.commands.replay_node",
    "harness.report.resolving": "harness.report.next_command",
    "harness.report.scenario": "harness.report.scenario_outcome",
    "harness.report.series": "harness.commands.campaign",
    "harness.report.session": "harness.commands.run",
    "harness.report.trends": "harness.commands.trends",
    "harness.report.views": "harness.report.page_data",
    "harness.report.write": "harness.report.report_files",
}
"""Module or package of 0.1.0 → what it is called now, both from one of ``PACKAGES`` on."""

_ABOVE = __name__.removesuffix("harness.core.renamed")


def renamed(dotted: str) -> str:
    """The present name of a module, or of ``module:NAME``, that an earlier version stored or imported."""
    path, colon, attribute = dotted.partition(":")
    parts = path.removeprefix(_ABOVE).split(".")
    if parts[0] not in PACKAGES:
        return dotted
    for length in range(len(parts), 0, -1):
        found = MODULES.get(".".join(parts[:length]))
        if found is not None:
            parts = [found, *parts[length:]]
            break
    return f"{_ABOVE}{'.'.join(parts)}{colon}{attribute}"


def of_import(error: ImportError) -> str:
    """What to import instead of a module that is not there under its old name; "" if it is none of ours."""
    name = error.name or ""
    now = renamed(name)
    return "" if now == name else f"{name} is {now} since dethrone 0.2.0: CHANGELOG.md lists the new names"


def with_new_imports(source: bytes, where: str) -> ast.Module:
    """A file's code, with imports of modules by their old names turned into imports of what they are now."""
    tree = ast.parse(source, where)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module is not None:
            node.module = renamed(node.module)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                alias.name = renamed(alias.name) if alias.asname else alias.name
    return tree
