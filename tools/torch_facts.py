"""Print what CMake must know of this interpreter's torch, as one CMake list.

Fields: folder of torch, its C++ string ABI (0 or 1), folder of Python.h, suffix of modules.
"""

import os
import runpy
import sys
import sysconfig

import torch

root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
versions = runpy.run_path(os.path.join(root, "python", "fitstep", "versions.py"))
if fault := versions["too_old"](torch.__version__):
    sys.exit(fault)

python_include = sysconfig.get_paths()["include"]
if not os.path.exists(os.path.join(python_include, "Python.h")):
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    python_include = os.path.join(root, ".deps", "usr", "include", version)

facts = [
    os.path.dirname(torch.__file__),
    str(int(torch._C._GLIBCXX_USE_CXX11_ABI)),
    python_include,
    sysconfig.get_config_var("EXT_SUFFIX"),
]
print(";".join(facts))
