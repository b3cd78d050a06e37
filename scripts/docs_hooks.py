"""What MkDocs is told beside mkdocs.yml: pages of the repository's root and the C++ reference belong to the site.

Doxygen's pages (folder GBC_DOXYGEN) are static files of reference/cpp/, so that links to them are checked like all
others. CHANGELOG.md, CONTRIBUTING.md and SECURITY.md become pages of the folder project/."""
import os
import re
from pathlib import Path

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[1]
ROOT_PAGES = {"CHANGELOG.md": "project/changelog.md", "CONTRIBUTING.md": "project/contributing.md",
              "SECURITY.md": "project/security.md", "README.md": "index.md"}
LINK = re.compile(r"(\]\()([^)\s#]+)((?:#[^)\s]*)?\))")


def to_page(target, page):
    """The link from `page` of the site to what `target`, a path in the repository, is there; None: it is not in the site."""
    if target in ROOT_PAGES:
        place = ROOT_PAGES[target]
    elif target.startswith("docs/"):
        place = target.removeprefix("docs/")
    else:
        return None
    return os.path.relpath(place, os.path.dirname(page) or ".")


def rewrite(text, source, page):
    """Links of the file `source` of the repository, for the place that it has in the site. A file that is not part
    of the site is named, not linked."""

    def replace(found):
        link = found[2]
        if re.match(r"[a-z]+:", link):
            return found[0]
        target = os.path.normpath(os.path.join(os.path.dirname(source), link))
        if source.startswith("docs/") and target.startswith("docs/"):
            return found[0]
        place = to_page(target, page)
        return f"]({place}{found[3][:-1]})" if place else f"](#NOT-IN-SITE:{target})"

    text = LINK.sub(replace, text)
    return re.sub(r"\[([^]\[]*)\]\(#NOT-IN-SITE:([^)]*)\)", r"\1 (`\2`)", text)


def on_files(files, config):
    for source, place in ROOT_PAGES.items():
        if place != "index.md" and (ROOT / source).exists():
            text = rewrite((ROOT / source).read_text(), source, place)
            files.append(File.generated(config, place, content=text))
    doxygen = os.environ.get("GBC_DOXYGEN")
    for path in sorted(Path(doxygen).rglob("*")) if doxygen else []:
        if path.is_file():
            name = "reference/cpp/" + str(path.relative_to(doxygen))
            files.append(File.generated(config, name, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown, page, config, files):
    if page.file.src_uri.startswith("project/"):
        return markdown
    return rewrite(markdown, "docs/" + page.file.src_uri, page.file.src_uri)
