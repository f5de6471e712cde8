"""What weft.shard and weft.checkpoint have, against the headers."""
import inspect
import re
import subprocess
import sys
import unittest

import ranks
from shard_ranks import DEADLINE_S


def header(name):
    return (ranks.ROOT / "include" / "weft" / name).read_text()


class Interface(unittest.TestCase):
    def test_every_function_is_reached(self):
        from weft import _capi
        package = ranks.SOURCE / "weft"
        sources = "".join(path.read_text() for path in [*(package / "shard").glob("*.py"), package / "checkpoint.py"])
        wanted = [name for name in _capi.FUNCTIONS if re.match("weft_(shard|checkpoint|mesh)_", name)]
        self.assertGreater(len(wanted), 70)
        self.assertEqual([], [name for name in wanted if not re.search(rf"library\.{name}\b", sources)])

    def test_every_number_has_a_name(self):
        from weft import _capi
        from weft.shard import enums
        for kind, prefix in ((enums.Preset, "SHARD_"), (enums.Cut, "SHARD_CUT_"), (enums.Wire, "SHARD_WIRE_"), (enums.Place, "SHARD_PLACE_"),
                             (enums.Accumulation, "SHARD_"), (enums.Views, "SHARD_VIEWS_"), (enums.Mode, "SHARD_"), (enums.OptimizerKind, "OPTIMIZER_"),
                             (enums.Nonfinite, "NONFINITE_"), (enums.StateKind, "SHARD_STATE_"), (enums.States, "SHARD_STATE_"), (enums.Tier, "SHARD_TIER_")):
            for name, member in kind.__members__.items():
                self.assertEqual(getattr(_capi, f"WEFT_{prefix}{name}"), member)
        text = "".join(header(f"{name}.h") for name in ("shard", "shard_policy", "shard_step", "shard_state", "shard_memory"))
        for name, kind in (("weft_shard_preset", enums.Preset), ("weft_shard_cut", enums.Cut), ("weft_shard_wire", enums.Wire),
                           ("weft_shard_place", enums.Place), ("weft_shard_accumulation", enums.Accumulation), ("weft_shard_views", enums.Views),
                           ("weft_shard_mode", enums.Mode), ("weft_optimizer_kind", enums.OptimizerKind), ("weft_nonfinite", enums.Nonfinite),
                           ("weft_shard_state_kind", enums.StateKind), ("weft_shard_tier", enums.Tier)):
            block = text[text.index(f"typedef enum {name} "):text.index(f"}} {name}_t;")]
            self.assertEqual(len(kind), len(re.findall(r"^  WEFT_\w+ *=", block, re.MULTILINE)), name)

    def test_records_have_every_field(self):
        from weft import _capi
        from weft.shard import records
        from weft.shard.param import StatePart
        others = {"struct_size", "unit", "flags", "ndim", "fields", "frozen", "decay", "writes_grad", "counted", "ranks"}
        for kind, struct in ((records.Plan, "plan"), (records.StepResult, "step_result"), (records.UpdateResult, "update_result"),
                             (records.RankReport, "rank_report"), (records.Report, "report"), (records.ParamInfo, "param_info"),
                             (records.UnitInfo, "unit_info"), (records.GroupNumbers, "param_group"), (records.StateScalars, "state_scalars"),
                             (StatePart, "state_part")):
            names = [name for name, _ in _capi.STRUCTS[f"weft_shard_{struct}_t"]._fields_]
            self.assertEqual([name for name in names if name not in others], [name for name in kind._fields if name not in others])

    def test_options_have_every_field(self):
        from weft import _capi
        from weft.shard import Context, Policy
        from weft.shard.optimizer import ParamGroup

        def fields(struct):
            return {name for name, _ in _capi.STRUCTS[struct]._fields_} - {"struct_size", "fields"}

        def arguments(function):
            return set(inspect.signature(function).parameters) - {"self", "ranks"}

        renamed = {"no_overlap": "overlap", "no_average": "average", "timeout_ns": "timeout"}
        self.assertEqual({renamed.get(name, name) for name in fields("weft_shard_config_t")}, arguments(Context.__init__))
        self.assertEqual(fields("weft_optimizer_config_t") - {"product_user", "release_user"}, arguments(Context.set_optimizer))
        self.assertEqual(fields("weft_shard_param_group_t"), arguments(ParamGroup.set))
        self.assertEqual(arguments(ParamGroup.set), arguments(Context.add_param_group))
        self.assertEqual(fields("weft_shard_policy_t"), set(Policy._fields))
        self.assertEqual(fields("weft_shard_settings_t"), arguments(Context.set))
        self.assertEqual(fields("weft_shard_update_t") - {"stream"}, arguments(Context.optimizer_step))

    def test_document_has_every_name(self):
        import weft.checkpoint
        import weft.shard
        text = (ranks.ROOT / "docs" / "python.md").read_text()
        missing = [name for name in weft.shard.__all__ if name not in text]
        for kind in (weft.shard.Context, weft.shard.Unit, weft.shard.Param, weft.shard.Array, weft.shard.Mesh, weft.shard.ParamGroup,
                     weft.checkpoint.Checkpoint):
            missing += [f"{kind.__name__}.{name}" for name in vars(kind) if not name.startswith("_") and not re.search(rf"\b{name}\b", text)]
        self.assertEqual([], missing)

    def test_document_has_every_keyword(self):
        import weft.checkpoint
        from weft.shard import Context, Mesh, Param, ParamGroup, ParamSpec, Policy, Unit
        text = (ranks.ROOT / "docs" / "python.md").read_text()
        calls = [Context.__init__, *(made for kind in (Context, Mesh, ParamGroup, Param, Unit, weft.checkpoint.Checkpoint)
                                     for name, made in vars(kind).items() if inspect.isfunction(made) and not name.startswith("_"))]
        keywords = {name for call in calls for name, argument in inspect.signature(call).parameters.items()
                    if argument.kind is inspect.Parameter.KEYWORD_ONLY and argument.default is not inspect.Parameter.empty}
        keywords |= set(Policy._fields) | set(ParamSpec._field_defaults)
        self.assertGreater(len(keywords), 50)
        self.assertEqual([], sorted(name for name in keywords if not re.search(rf"\b{name}=", text)))
        self.assertEqual([], [name for name in ("no_average", "no_overlap", "timeout_ns") if name not in text])

    def test_import_takes_little_with_it(self):
        done = subprocess.run([sys.executable, "-B", "-c", "import sys, weft.shard, weft.checkpoint; print(*sys.modules)"], env=ranks.environment(),
                              capture_output=True, text=True, timeout=DEADLINE_S, check=True)
        came = {name.split(".")[0] for name in done.stdout.split()}
        self.assertFalse(came & {"numpy", "asyncio", "torch", "ml_dtypes", "inspect", "dataclasses", "subprocess"}, came)


if __name__ == "__main__":
    ranks.take_arguments()
    ranks.main()
