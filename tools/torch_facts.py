"""Print what CMake must know of this interpreter's torch, as one CMake list.

Fields: folder of torch, its C++ string ABI (0 or 1), folder of Python.h, suffix of modules.
"""

import os
import sysconfig

import torch

facts = [
    os.path.dirname(torch.__file__),
    str(int(torch._C._GLIBCXX_USE_CXX11_ABI)),
    sysconfig.get_paths()["include"],
    sysconfig.get_config_var("EXT_SUFFIX"),
]
print(";".join(facts))
