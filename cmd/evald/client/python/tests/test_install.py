"""Wheels and source distributions: what they contain, that they install, and what is said if something is missing."""
from __future__ import annotations

import email
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile
import unittest
import zipfile

from reference import needs

needs("hatchling")

PACKAGE = pathlib.Path(__file__).resolve().parent.parent
ROOT = PACKAGE.parents[3]
BARE = {k: v for k, v in os.environ.items() if k not in ("EVALD_LIBRARY", "EVALD_PROGRAM", "PYTHONPATH")}


def run(*command: str, cwd: pathlib.Path = PACKAGE, env: dict[str, str] | None = None, input: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, input=input)


class Install(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def built(self, kind: str, **variables: str) -> pathlib.Path:
        done = run(sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(self.folder), env={**BARE, **variables})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return next(self.folder.iterdir())

    @unittest.skipUnless(os.environ.get("EVALD_LIBRARY"), "needs the library")
    def test_wheel(self) -> None:
        """A wheel has the package, its metadata and the library, and works where nothing else is."""
        wheel = self.built("wheel", EVALD_BUILT=os.environ["EVALD_LIBRARY"], EVALD_WHEEL_TAG="linux_x86_64", EVALD_VERSION="1.2.3")
        self.assertEqual(wheel.name, "evald-1.2.3-py3-none-linux_x86_64.whl")
        with zipfile.ZipFile(wheel) as content:
            names = {name for name in content.namelist() if "dist-info" not in name}
            self.assertEqual(names, {f"evald/{p.name}" for p in (PACKAGE / "evald").iterdir() if p.suffix in (".py", ".typed")} | {"evald/libevald.so"})
            told = email.message_from_bytes(content.read("evald-1.2.3.dist-info/METADATA"))
            self.assertEqual((told["Name"], told["Version"], told["Requires-Python"], told["License-File"]), ("evald", "1.2.3", ">=3.10", "LICENSE"))
            self.assertLessEqual({"torch", "jax", "ray"}, set(told.get_all("Provides-Extra", [])))
            links = re.findall(r"\]\(([^)#]+)", told.get_payload())
            self.assertGreater(len(links), 5)
            self.assertEqual([link for link in links if not link.startswith("https://")], [])
            self.assertIn("https://github.com/evald/evald/blob/main/cmd/evald/guides/install.md", links)
            self.assertIn(b"evald = evald.__main__:main", content.read("evald-1.2.3.dist-info/entry_points.txt"))
        site = self.folder / "site"
        done = run(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(site), str(wheel))
        self.assertEqual(done.returncode, 0, done.stderr)
        code = "import evald; print(evald.__file__, evald.__version__, evald.search('445566', visits=20).best)"
        done = run(sys.executable, "-c", code, cwd=self.folder, env={**BARE, "PYTHONPATH": str(site)})
        self.assertEqual(done.stdout.split(), [str(site / "evald" / "__init__.py"), "1.2.3", "[2]"], done.stderr)
        for command in [[str(site / "bin" / "evald")], [sys.executable, "-m", "evald"]]:
            for line, status in (("44554", 0), ("wrong", 1)):
                done = run(*command, "eval", "--backend", "bitsquares", cwd=self.folder, env={**BARE, "PYTHONPATH": str(site)}, input=line)
                self.assertEqual(done.returncode, status, done.stderr)
                self.assertEqual('"position":"44554"' in done.stdout, status == 0, done.stdout)

    def test_program(self) -> None:
        """Where there is no library, a wheel has the program."""
        wheel = self.built("wheel", EVALD_BUILT=sys.executable, EVALD_WHEEL_TAG="macosx_12_0_arm64", EVALD_VERSION="1.2.3")
        with zipfile.ZipFile(wheel) as content:
            names = content.namelist()
        self.assertIn(f"evald-1.2.3.data/scripts/{pathlib.Path(sys.executable).name}", names)
        self.assertFalse([name for name in names if "libevald" in name or "entry_points" in name])

    def test_source(self) -> None:
        """A source distribution has all that Go builds the library from, and no tests."""
        if not (ROOT / ".git").exists():
            self.skipTest("the checkout is not one of git")
        source = self.built("sdist", EVALD_VERSION="1.2.3")
        with tarfile.open(source) as content:
            names = {name.partition("/")[2] for name in content.getnames()}
        packages = run("go", "list", "-deps", "-tags=library", "-f", "{{if and .Module .Module.Main}}{{$d := .Dir}}{{range .GoFiles}}{{$d}}/{{.}}\n{{end}}"
                       "{{range .CgoFiles}}{{$d}}/{{.}}\n{{end}}{{range .CFiles}}{{$d}}/{{.}}\n{{end}}{{range .HFiles}}{{$d}}/{{.}}\n{{end}}"
                       "{{range .SFiles}}{{$d}}/{{.}}\n{{end}}{{range .EmbedFiles}}{{$d}}/{{.}}\n{{end}}{{end}}", "./cmd/evald", cwd=ROOT)
        needed = {"go/" + str(pathlib.Path(line).relative_to(ROOT)) for line in packages.stdout.split("\n") if line}
        self.assertGreater(len(needed), 300, packages.stderr)
        self.assertEqual(needed - names, set())
        always = {"go/go.mod", "go/go.sum", "go/Makefile", "LICENSE", "README.md", "PKG-INFO", "pyproject.toml", "hatch_build.py", "evald/__init__.py"}
        self.assertEqual(always - names, set())
        self.assertEqual([name for name in names if name.endswith("_test.go") or "/testdata/" in name or "/tests/" in name], [])
        self.assertLess(source.stat().st_size, 60_000_000)

    def test_missing(self) -> None:
        """What is missing is named, with what to do."""
        def said(path: str) -> str:
            done = run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(self.folder), env={**BARE, "PATH": path})
            self.assertNotEqual(done.returncode, 0)
            return done.stderr.strip().rpartition("\n")[2]

        self.assertRegex(said(str(self.folder)), r"Go, which is not on PATH: install Go 1\.\d+ or later")
        old = self.folder / "go"
        for script, says in (("echo go1.9.2; echo gcc; echo 1", "is go1.9.2"), ("echo go1.99; echo missing-cc; echo 1", "C compiler.*missing-cc"), ("echo broken >&2; exit 1", "fails: broken")):
            old.write_text(f"#!/bin/sh\n{script}\n")
            old.chmod(0o755)
            self.assertRegex(said(f"{self.folder}:/bin:/usr/bin" if "missing" not in script else f"{self.folder}:/bin"), says)


if __name__ == "__main__":
    unittest.main()
