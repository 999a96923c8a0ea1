"""Writes the package's reference, the guides and the manuals as pages of one static site:
python build.py FOLDER. It needs the packages of .ci/docs.txt.

Frameworks that are not installed are replaced by Stub, so that their modules are documented too.
"""
from __future__ import annotations

import importlib
import importlib.abc
import os
import pkgutil
import re
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import pdoc.doc
import pdoc.doc_types
import pdoc.render

HERE = Path(__file__).resolve().parent
COMMANDS = HERE.parents[2]  # cmd/evald
ROOT = COMMANDS.parents[1]
FRAMEWORKS = (
    "duckdb", "gymnasium", "jax", "mctx", "open_spiel", "pandas", "pettingzoo", "pyarrow", "pyspiel",
    "ray", "torch",
)

# The pages beside the reference, each with its file.
PAGES = {
    **{"guides." + file.stem: file for file in sorted((COMMANDS / "guides").glob("*.md"))},
    "manuals.python": HERE.parent / "README.md",
    "manuals.frameworks": HERE.parent / "frameworks.md",
    "manuals.commands": COMMANDS / "README.md",
    "manuals.service": COMMANDS / "kserve" / "README.md",
}


class Stub(ModuleType):
    """A name of a framework that is not installed. It has all attributes, and can be called,
    indexed, and a base of a class."""

    __path__: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name == "__qualname__":
            return self.__name__
        if name.startswith("__"):
            raise AttributeError(name)
        return Stub(f"{self.__name__}.{name}")

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self

    def __getitem__(self, of: Any) -> Any:
        return self

    def __mro_entries__(self, bases: Any) -> tuple[type, ...]:
        return ()

    def __repr__(self) -> str:
        return self.__name__


class Stubs(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the frameworks that no other finder has found."""

    def find_spec(self, name: str, path: Any, target: ModuleType | None = None) -> ModuleSpec | None:
        return ModuleSpec(name, self) if name.partition(".")[0] in FRAMEWORKS else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return Stub(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass


class Written(str):
    """An annotation as the source has it. Evaluated, each array and union would take a line."""

    __repr__ = str.__str__


def listed(docstring: str) -> str:
    """Arguments that have a line each as a list, without the marks of generated lines."""
    unmarked = re.sub(r"^\.\. \w+[/ ]\w+: \w+$", "", docstring, flags=re.M)
    return re.sub(r"^(?=`\w+`: )", "- ", unmarked, flags=re.M)


def page(name: str, file: Path) -> pdoc.doc.Module:
    """A file of Markdown as a module without members. Links to other pages lead there, and those to
    other files, and pictures, become the files' names."""
    up, names = "../" * name.count("."), {of: page for page, of in PAGES.items()}

    def link(found: re.Match[str]) -> str:
        text, target, fragment = found.groups()
        path = Path(os.path.normpath(file.parent / target))
        if path in names:
            return f"[{text}]({up}{names[path].replace('.', '/')}.html{fragment or ''})"
        return f"{text} (`{path.relative_to(ROOT)}`)"

    text = re.sub(r"!?\[([^\]]+)\]\(([^)#:]+)(#[^)]*)?\)", link, file.read_text())
    return pdoc.doc.Module(ModuleType(name, text))


def loaded() -> list[ModuleType]:
    """evald and its public modules, with all that they load lazily, as pdoc is to show them."""
    sys.path.insert(0, str(HERE.parent))
    sys.meta_path.append(Stubs())
    package, values = importlib.import_module("evald"), importlib.import_module("evald._values")
    for name in package.__all__:
        of = getattr(package, name)
        if isinstance(of, type) and issubclass(of, values.Value):
            of.__init__.__doc__ = "@private"  # evald makes the results, never a caller
            for base in of.__mro__[1:]:  # the bases are private, and have no entry of their own
                of.__annotations__ = {**getattr(base, "__annotations__", {}), **of.__annotations__}
                for attribute, member in vars(base).items():
                    if not attribute.startswith("_") and attribute not in vars(of):
                        setattr(of, attribute, member)
    found = (module.name for module in pkgutil.iter_modules(package.__path__))
    return [package, *(importlib.import_module("evald." + name) for name in found if name[0] != "_")]


def written(classes: list[str]) -> Any:
    """A function in place of pdoc's that evaluates annotations. Names of the classes become links."""
    names = re.compile(rf"\b({'|'.join(classes)})\b")
    return lambda of, *_: Written(names.sub(r"evald.\1", of)) if isinstance(of, str) else of


def main(folder: Path) -> None:
    package, *others = loaded()
    evaluating = written([name for name in package.__all__ if name[0].isupper()])
    pdoc.doc.safe_eval_type = pdoc.doc_types.safe_eval_type = evaluating
    pdoc.render.configure(docformat="markdown", show_source=False, template_directory=HERE)
    pdoc.render.env.filters["to_markdown"] = listed
    pdoc.render.env.globals["titles"] = {
        name: file.read_text().partition("\n")[0].removeprefix("# ") for name, file in PAGES.items()
    }
    modules = {module.__name__: pdoc.doc.Module(module) for module in (package, *others)}
    modules |= {name: page(name, file) for name, file in PAGES.items()}
    for name, module in modules.items():
        file = folder / (name.replace(".", "/") + ".html")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(pdoc.render.html_module(module, modules))
    first = '<!doctype html><meta http-equiv="refresh" content="0; url=evald.html">'
    (folder / "index.html").write_text(first)
    (folder / "search.js").write_text(pdoc.render.search_index(modules))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
