"""How the package is built, for hatchling: its version, its library, and the Go sources in a source
distribution.

The library is built from the checkout around this folder, or from the copy of its sources that a
source distribution has in the folder go. Who has built it beforehand names it and its platform by
variables:

    EVALD_BUILT         the library, or on systems without one the program
    EVALD_WHEEL_TAG     such as manylinux_2_34_x86_64
    EVALD_VERSION       such as 0.1.0
"""
from __future__ import annotations

import os
import platform
import posixpath
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

HERE = Path(__file__).resolve().parent
COPY = HERE / "go"  # in a source distribution
ROOT = COPY if COPY.is_dir() else HERE.parents[3]
LIBRARY = {"darwin": "libevald.dylib", "win32": "evald.dll"}.get(sys.platform, "libevald.so")


class BuildError(Exception):
    """Says what is missing and what to do."""


def version() -> str:
    """The version of the release, of the commit, or of the source distribution (PEP 440)."""
    if named := os.environ.get("EVALD_VERSION"):
        return named
    if COPY.is_dir():
        return re.findall(r"^Version: (.+)$", (HERE / "PKG-INFO").read_text(), re.M)[0]

    def git(*arguments: str) -> str:
        if shutil.which("git") is None:
            return ""
        done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True)
        return done.stdout.strip() if done.returncode == 0 else ""

    commit = git("rev-parse", "--short=12", "HEAD")
    changed = bool(git("status", "--porcelain", "--untracked-files=no"))
    tag = next((tag[1:] for tag in git("tag", "--points-at", "HEAD", "--sort=-version:refname").split() if re.fullmatch(r"v\d+\.\d+\.\d+", tag)), "")
    if tag and not changed:
        return tag
    return "0.0.0.dev0" + (f"+g{commit}" if commit else "") + (".dirty" if changed else "")


def with_addresses(text: str) -> str:
    """A text of this folder, whose links to files of the repository are addresses."""
    def address(link: re.Match[str]) -> str:
        return f"](https://github.com/evald/evald/blob/main/{posixpath.normpath('cmd/evald/client/python/' + link[1])}"
    return re.sub(r"\]\((?![a-z]+:|#)([^)\s#]+)", address, text)


class CustomMetadataHook(MetadataHookInterface):
    def update(self, metadata: dict[str, Any]) -> None:
        """A wheel with the library has the command evald by the package; one with the program has the
        program itself. The readme's links work on PyPI, too."""
        metadata["readme"] = {"content-type": "text/markdown", "text": with_addresses((HERE / "README.md").read_text("utf-8"))}
        built = os.environ.get("EVALD_BUILT")
        metadata["scripts"] = {"evald": "evald.__main__:main"} if built is None or is_library(built) else {}


class CustomBuildHook(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name == "sdist":
            for path in sources():
                build_data["force_include"][str(ROOT / path)] = f"go/{path}"
            return
        built = os.environ.get("EVALD_BUILT") or str(build())
        build_data["pure_python"] = False
        build_data["tag"] = "py3-none-" + (os.environ.get("EVALD_WHEEL_TAG") or platform_tag())
        if version == "editable":
            shutil.copy(built, HERE / "evald")
        elif is_library(built):
            build_data["force_include"][built] = f"evald/{Path(built).name}"
        else:
            build_data["shared_scripts"][built] = Path(built).name


def is_library(path: str) -> bool:
    return Path(path).suffix in (".so", ".dylib", ".dll")


def platform_tag() -> str:
    """The tag of this machine."""
    from packaging.tags import platform_tags

    return list(platform_tags())[-1] if sys.platform == "linux" else next(iter(platform_tags()))


def sources() -> list[str]:
    """The files from which the library is built, without tests. A checkout has them from git."""
    if COPY.is_dir():
        files = [str(path.relative_to(ROOT)) for path in ROOT.rglob("*") if path.is_file()]
    else:
        files = subprocess.run(["git", "-C", str(ROOT), "ls-files", "-z"], capture_output=True, check=True).stdout.decode().split("\0")[:-1]
    kept = re.compile(r"(cmd|engine|kernels|models|nn)/|(go\.mod|go\.sum|Makefile|LICENSE)$")
    left = re.compile(r"_test\.go$|(^|/)(testdata|tests|notebooks|docs)/|^cmd/evald/client/python/")
    return [name for name in files if kept.match(name) and not left.search(name)]


def build() -> Path:
    """Builds the library with Go."""
    built = ROOT / "bin" / LIBRARY
    needed = re.findall(r"^go (\d+\.\d+)", (ROOT / "go.mod").read_text(), re.M)[0]
    go = shutil.which("go")
    if go is None:
        raise BuildError(f"evald's library is built with Go, which is not on PATH: install Go {needed} or later (https://go.dev/dl), or a wheel")
    found = subprocess.run([go, "env", "GOVERSION", "CC", "CGO_ENABLED"], cwd=ROOT, capture_output=True, text=True)
    if found.returncode != 0:
        raise BuildError(f"evald's library needs Go {needed} or later (https://go.dev/dl), and {go} fails: {found.stderr.strip()}")
    release, cc, cgo = (found.stdout.split("\n") + [""] * 3)[:3]
    if tuple(map(int, re.findall(r"\d+", release)[:2])) < tuple(map(int, needed.split("."))):
        raise BuildError(f"evald's library needs Go {needed} or later (https://go.dev/dl), and {go} is {release}")
    if cgo != "1" or shutil.which(cc.split()[0] if cc else "cc") is None:
        raise BuildError(f"evald's library needs a C compiler for cgo: CC is {cc!r} and CGO_ENABLED is {cgo!r}; install gcc or clang")
    print("evald: Go builds the library; the first time this takes some minutes", file=sys.stderr)
    if sys.platform == "linux" and platform.machine() == "x86_64" and shutil.which("make") and shutil.which("ar"):
        command = ["make", "library"]  # with GPU support
    else:
        command = [go, "build", "-tags=library", "-ldflags=-s -w", "-buildmode=c-shared", "-o", str(built), "./cmd/evald"]
    done = subprocess.run(command, cwd=ROOT, stdout=sys.stderr)
    if done.returncode != 0:
        raise BuildError(f"evald's library could not be built: {' '.join(command)} in {ROOT} ended with status {done.returncode}")
    return built
