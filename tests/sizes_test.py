"""Functions have at most 60 lines; what is longer is named here with its reason."""
import ast
import re
import subprocess
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FUNCTION = 60
CPP = {".cpp", ".h", ".in", ".cu"}

TABLE, CASES = "a table", "a list of cases"
STEPS = "one formula, step by step, whose values would all be handed on"
ORDER = "one order of bytes, or of steps, from front to back"
#: (file, function): why it is longer.
LONG_FUNCTIONS = {
    ("core/src/artifact/encode.cpp", "make_layout"): ORDER,
    ("core/src/bottleneck/with_layers.cpp", "place_with_layers"): ORDER,
    ("core/src/codec/lanes/vector_steps-inl.h", "ShiftedStep"): STEPS,
    ("core/src/codec/trellis/trellis_path.cpp", "Choose"): STEPS,
    ("core/src/config/setting_rows.cpp", "run_rows"): TABLE,
    ("core/src/config/setting_uses.cpp", "reasons"): TABLE,
    ("core/src/gnet/fused_backward.cpp", "Backward"): STEPS,
    ("core/src/gnet/reference.h", "backward_tile"): STEPS,
    ("core/src/sweep/sweep_report.cpp", "sweep_svg"): ORDER,
    ("plugins/al/exchange.cpp", "pass_on"): ORDER,
    ("sdk/python/examples/distill_vad.py", "main"): ORDER,
    ("tests/golden/bad_files.cpp", "generated"): CASES,
    ("tests/golden/golden_samples.cpp", "golden"): CASES,
    ("tests/golden/samples.cpp", "random_artifact"): CASES,
    ("tests/golden/small_decoder.py", "tensor"): "the decoder of a page, in the order of the page",
    ("tests/peer/strategies_compare.py", "main"): ORDER,
    ("tests/unit/config/settings_test.cpp", "SettingsTest, EveryKeyIsReadFromAFile"): CASES,
    ("tests/unit/format/safetensors_bad_test.cpp", "bad_files"): CASES,
}


def sources():
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [Path(name) for name in listed.split("\0") if name and (ROOT / name).is_file()]


def without_text(source):
    """Comments, strings and preprocessor lines as blanks of the same length."""
    pattern = (r'R"(\w*)\((?:.|\n)*?\)\1"' r"|//[^\n]*|/\*(?:.|\n)*?\*/" r'|"(?:\\.|[^"\\\n])*"' r"|'(?:\\.|[^'\\\n])'"
               r"|(?m:^[ \t]*#(?:\\\n|[^\n])*)")
    return re.sub(pattern, lambda found: re.sub(r"[^\n]", " ", found[0]), source)


def cpp_functions(source):
    """(name, lines) of every function with a body that is not inside another one."""
    text = without_text(source)
    result, scopes, head = [], [], 0  # head: where the present declaration begins
    for found in re.finditer(r"[{};]|\b(?:public|private|protected):", text):
        at, mark = found.start(), found[0]
        inside = any(kind == "function" for kind, *_ in scopes)
        if mark == "{":
            declared = text[head:at]
            if not inside and re.search(r"[\w>]$", declared):
                kind = "member"  # x_{1}, before the body
            elif inside or re.search(r"=\s*$", declared):
                kind = "block"
            elif re.match(r"\s*(?:template\s*<[^{;]*>\s*)?(?:inline\s+)?(?:namespace|class|struct|union|enum|extern)\b", declared):
                kind = "scope"
            else:
                kind = "function" if ")" in declared else "block"
            name = re.search(r"\bTEST(?:_F|_P)?\((\w+,\s*\w+)\)|([~\w]+|operator\S+)\s*\(", declared)
            scopes.append((kind, name[1] or name[2] if name else "?", head + len(declared) - len(declared.lstrip())))
            inside = inside or kind == "member"
        elif mark == "}" and scopes:
            kind, name, first = scopes.pop()
            if kind == "function":
                result.append((name, text.count("\n", first, at) + 1))
                inside = False
            inside = inside or kind == "member"
        if not inside:
            head = found.end()
    return result


def python_functions(source):
    return [(node.name, node.end_lineno - node.lineno + 1) for node in ast.walk(ast.parse(source))
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]


def documented_lines(source):
    """Lines of docstrings, by function: a public one may need many."""
    lines = {}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and ast.get_docstring(node):
            first = node.body[0]
            lines[node.name] = first.end_lineno - first.lineno + 1
    return lines


def long_functions(path):
    source = (ROOT / path).read_text()
    if path.suffix in CPP:
        return {name for name, lines in cpp_functions(source) if lines > FUNCTION}
    documented = documented_lines(source)
    return {name for name, lines in python_functions(source) if lines - documented.get(name, 0) > FUNCTION}


class Sizes(unittest.TestCase):
    def test_functions(self):
        long = {(str(path), name) for path in sources() if path.suffix in CPP | {".py"} for name in long_functions(path)}
        self.assertEqual(long - set(LONG_FUNCTIONS), set(), f"more than {FUNCTION} lines: split them")
        self.assertEqual(set(LONG_FUNCTIONS) - long, set(), "no longer than others: take them out of LONG_FUNCTIONS")

    def test_the_counts(self):
        body = "  int x;\n" * 70
        source = ('namespace a {\nclass B {\n public:\n  B() : x_{1} {\n' + body + '  }\n  int x_;\n};\n'
                  'int short_one(int a) {\n  return R"x(\n' + "{\n" * 90 + ')x"[a];\n}\n'
                  "template <typename T>\nauto long_one(T t) -> int {\n" + body + "}\nconst int table[] = {\n" + "1,\n" * 99 + "};\n}\n")
        found = dict(cpp_functions(source))
        self.assertEqual((found["B"], found["long_one"]), (72, 73))
        self.assertEqual({name for name, lines in found.items() if lines > FUNCTION and name != "short_one"}, {"B", "long_one"})
        self.assertEqual(python_functions("def f():\n" + "    x = 1\n" * 61), [("f", 62)])


if __name__ == "__main__":
    unittest.main()
