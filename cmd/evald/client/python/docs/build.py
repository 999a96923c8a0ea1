"""Writes the package's reference, the guides and the manuals as pages of one static site: python build.py FOLDER. It needs .ci/docs.txt.

Frameworks that are not installed are replaced by Stub, so that the reference of their modules is complete without them.
"""
from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import os
import pkgutil
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, Sequence

import pdoc.doc
import pdoc.doc_types
import pdoc.render

HERE = Path(__file__).parent
COMMANDS = HERE.parents[2]  # cmd/evald
ROOT = COMMANDS.parents[1]
FRAMEWORKS = ("duckdb", "gymnasium", "jax", "mctx", "open_spiel", "pandas", "pettingzoo", "pyarrow", "pyspiel", "torch")

# The pages beside the reference, each with its file.
PAGES = {
    **{"guides." + file.stem: file for file in sorted((COMMANDS / "guides").glob("*.md"))},
    "manuals.python": HERE.parent / "README.md",
    "manuals.frameworks": HERE.parent / "frameworks.md",
    "manuals.commands": COMMANDS / "README.md",
    "manuals.service": COMMANDS / "kserve" / "README.md",
}


class Stub(ModuleType):
    """A name of a framework that is not installed: it has all attributes, and can be called, indexed, and a base of a class."""

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

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> importlib.machinery.ModuleSpec | None:
        return importlib.machinery.ModuleSpec(name, self) if name.partition(".")[0] in FRAMEWORKS else None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return Stub(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass


class Written(str):
    """An annotation as the source has it: evaluated, each array and union of the package would take a line."""

    __repr__ = str.__str__


def listed(docstring: str) -> str:
    """Arguments that have a line each as a list, without the marks of generated lines."""
    return re.sub(r"^(?=`\w+`: )", "- ", re.sub(r"^\.\. \w+[/ ]\w+: \w+$", "", docstring, flags=re.M), flags=re.M)


def page(name: str, file: Path) -> pdoc.doc.Module:
    """A file of Markdown as a module without members. Its links lead to other pages, and those to other files become the files' names."""
    up, names = "../" * name.count("."), {of: page for page, of in PAGES.items()}

    def link(found: re.Match[str]) -> str:
        text, target, fragment = found.groups()
        path = Path(os.path.normpath(file.parent / target))
        if path in names:
            return f"[{text}]({up}{names[path].replace('.', '/')}.html{fragment or ''})"
        return f"{text} (`{path.relative_to(ROOT)}`)"

    text = re.sub(r"\[([^\]]+)\]\(([^)#:]+)(#[^)]*)?\)", link, file.read_text())
    return pdoc.doc.Module(ModuleType(name, text))


def main(folder: Path) -> None:
    sys.path.insert(0, str(HERE.parent))
    sys.meta_path.append(Stubs())
    package, values = importlib.import_module("evald"), importlib.import_module("evald._values")
    for name in package.__all__:  # it loads them when they are used, and pdoc looks at what is loaded
        of = getattr(package, name)
        if isinstance(of, type) and issubclass(of, values.Value):
            of.__init__.__doc__ = "@private"  # evald makes the results, never a caller
            for base in of.__mro__[1:]:  # which has no page: it is private
                of.__annotations__ = {**getattr(base, "__annotations__", {}), **of.__annotations__}
                for name, member in vars(base).items():
                    if not name.startswith("_") and name not in vars(of):
                        setattr(of, name, member)
    classes = "|".join(name for name in package.__all__ if name[0].isupper())

    def written(annotation: Any, *_: Any) -> Any:
        return Written(re.sub(rf"\b({classes})\b", r"evald.\1", annotation)) if isinstance(annotation, str) else annotation

    pdoc.doc.safe_eval_type = pdoc.doc_types.safe_eval_type = written
    names = ["evald", *("evald." + module.name for module in pkgutil.iter_modules(package.__path__) if not module.name.startswith("_"))]
    modules = {name: pdoc.doc.Module(importlib.import_module(name)) for name in names}
    modules |= {name: page(name, file) for name, file in PAGES.items()}
    pdoc.render.configure(docformat="markdown", show_source=False, template_directory=HERE)
    pdoc.render.env.filters["to_markdown"] = listed
    pdoc.render.env.globals["titles"] = {name: file.read_text().partition("\n")[0].removeprefix("# ") for name, file in PAGES.items()}
    for name, module in modules.items():
        file = folder / (name.replace(".", "/") + ".html")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(pdoc.render.html_module(module, modules))
    (folder / "index.html").write_text('<!doctype html><meta http-equiv="refresh" content="0; url=evald.html">')
    (folder / "search.js").write_text(pdoc.render.search_index(modules))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
