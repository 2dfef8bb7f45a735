"""Makes data/checkpoint_p2.pth, data/checkpoint_p4.pth and data/checkpoint.safetensors: the same tensors three times.

    python3 tests/io/make_pth.py          needs torch, numpy and safetensors

The checkpoint has the form Lightning gives it: a state_dict beside hyper-parameters, callbacks and optimizer states, with
objects of many classes that a reader must pass over. The tensors have every dtype and every kind of view.
"""
import argparse, collections, datetime, enum, functools, os, pathlib, sys, types

import numpy
import safetensors.torch
import torch

here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data")

lab = types.ModuleType("lab.config")  # a module that no reader will have
sys.modules["lab"], sys.modules["lab.config"] = types.ModuleType("lab"), lab


class Schedule:
    def __init__(self):
        self.milestones, self.buffer, self.owner = [1, 2, 3], torch.ones(3), self


class Options(dict):
    pass


class Colour(enum.Enum):
    RED = 1


class Marked(torch.Tensor):
    pass


for c in (Schedule, Options, Colour, Marked):
    c.__module__ = "lab.config"
    setattr(lab, c.__name__, c)


def numbers(*shape, dtype=torch.float32):
    count = int(numpy.prod(shape)) if shape else 1
    return (torch.arange(count, dtype=torch.float64).reshape(shape) * 0.75 - 2).to(dtype)


state = collections.OrderedDict()
for t in (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2):
    state["type." + str(t)[6:]] = numbers(2, 3, dtype=t)
for t in (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.uint16, torch.uint32, torch.uint64):
    state["type." + str(t)[6:]] = torch.tensor([[1, 2, 3], [120, 0, 7]], dtype=t)
state["type.bool"] = torch.tensor([True, False, True])
base = numbers(4, 6)
state["view.base"] = base
state["view.rows"] = base[1:3]
state["view.transposed"] = base.t()
state["view.columns"] = base[:, 1::2]
state["view.expanded"] = torch.tensor([[5.0], [6.0]]).expand(2, 4)
state["view.channels_last"] = numbers(2, 3, 2, 2, dtype=torch.float16).to(memory_format=torch.channels_last)
state["view.ones"] = numbers(1, 4, 1).as_strided((1, 4, 1), (99, 1, 77))
state["empty"] = torch.zeros(0, 3)
state["scalar"] = torch.tensor(1.5)
state["parameter"] = torch.nn.Parameter(numbers(3))
state["parameter_with_state"] = torch.nn.Parameter(numbers(2, 2))
state["parameter_with_state"].note = "kept"
state["subclass"] = numbers(2, 2).as_subclass(Marked)
state["tied.a"] = state["tied.b"] = numbers(5)
state["na\u00efve.\U0001f600"] = numbers(1)
state._metadata = {"": {"version": 1}}

checkpoint = {
    "epoch": 3,
    "global_step": 10**30,
    "pytorch-lightning_version": "2.5.0",
    "state_dict": state,
    "loops": {"fit_loop": {"state": {}, "done": False, "ratio": 0.25, "nothing": None}},
    "callbacks": {"ModelCheckpoint{'monitor': 'loss'}": {"best": torch.tensor(0.125), "path": pathlib.PurePosixPath("/x")}},
    "optimizer_states": [{"state": {0: {"step": torch.tensor(7.0), "exp_avg": numbers(2)}, 1: (numbers(1), numbers(2))},
                          "param_groups": [{"lr": 1e-4, "betas": (0.9, 0.999), "params": [0, 1]}]}],
    "hyper_parameters": Options(schedule=Schedule(), rate=numpy.float64(0.5), size=numpy.int32(7), colour=Colour.RED),
    "namespace": argparse.Namespace(lr=1e-3, when=datetime.date(2024, 1, 2), device=torch.device("cpu")),
    "extras": [{1, 2}, frozenset({3}), b"bytes", bytearray(b"more"), functools.partial(int, base=2), range(3),
               collections.Counter("aab"), collections.defaultdict(list, {"k": [numbers(2)]}), torch.Size([1, 2]),
               torch.float16, complex(1, 2), numpy.arange(3), 1.5, -5, 2**40, -(2**63), Schedule],
    Colour.RED: "a key that is an object",
    (1, 2): "a key that is a tuple",
}

tensors = {"state_dict." + k: v for k, v in state.items()}
tensors["callbacks.ModelCheckpoint{'monitor': 'loss'}.best"] = torch.tensor(0.125)
for k, v in checkpoint["optimizer_states"][0]["state"][0].items():
    tensors["optimizer_states.0.state.0." + k] = v
for i, v in enumerate(checkpoint["optimizer_states"][0]["state"][1]):
    tensors["optimizer_states.0.state.1.%d" % i] = v
tensors["extras.7.k.0"] = numbers(2)
tensors = {k: v.detach().as_subclass(torch.Tensor).clone().contiguous() for k, v in tensors.items()}

torch.save(checkpoint, os.path.join(here, "checkpoint_p2.pth"))
torch.save(checkpoint, os.path.join(here, "checkpoint_p4.pth"), pickle_protocol=4)
safetensors.torch.save_file(tensors, os.path.join(here, "checkpoint.safetensors"),
                            {"made_by": "make_pth.py", "text": "quote \" backslash \\ newline \n \u00e9 \U0001f600"})
