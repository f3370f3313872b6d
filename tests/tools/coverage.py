#!/usr/bin/env python3
"""coverage.py BUILD: reads the .gcda files of coverage.sh through gcov's JSON and prints `coverage<TAB>header<TAB>%`;
what was not reached goes to BUILD/missed.txt, and the fuzz corpora's share of their parsers to stderr and as a line."""
import glob, json, os, re, subprocess, sys

build = sys.argv[1]


def collect(gcda_files):
    """Maximum count of each line of each header over all programs, and the functions' extents."""
    lines, functions = {}, {}
    for path in gcda_files:
        out = subprocess.run(['gcov', '--json-format', '--stdout', path], capture_output=True, text=True, check=True).stdout
        for text in out.splitlines():
            if not text.strip():
                continue
            for f in json.loads(text)['files']:
                name = os.path.basename(f['file'])
                if not re.fullmatch(r'cb_[a-z]+\.h', name):
                    continue
                table = lines.setdefault(name, {})
                for line in f['lines']:
                    n = line['line_number']
                    table[n] = max(table.get(n, 0), line['count'])
                for fn in f['functions']:
                    functions.setdefault(name, {})[fn['name']] = (fn['start_line'], fn['end_line'])
    return lines, functions


lines, functions = collect(glob.glob(os.path.join(build, '*.gcda')))
missed = open(os.path.join(build, 'missed.txt'), 'w')
for name in sorted(lines):
    hit = sum(1 for c in lines[name].values() if c)
    print(f'coverage\t{name}\t{100.0 * hit / max(1, len(lines[name])):.1f}')
    source = open(name, errors='replace').read().split('\n')
    for n in sorted(n for n, c in lines[name].items() if not c):
        missed.write(f'{name}:{n}: {source[n - 1].strip()}\n')

for entry in sorted(glob.glob('tests/fuzz/fuzz_*.c')):
    stem = os.path.basename(entry)[:-2]
    m = re.search(r'\bparser: (\S+)', open(entry).read())
    files = [f for f in glob.glob(os.path.join(build, 'fuzz', '*.gcda')) if stem in os.path.basename(f)]
    if not m or not files:
        continue
    flines, ffunctions = collect(files)
    total = hit = 0
    for name in flines:
        spans = [s for fn, s in ffunctions[name].items() if re.search(m.group(1), fn)]
        for n, c in flines[name].items():
            if any(a <= n <= b for a, b in spans):
                total += 1
                hit += c > 0
                if not c:
                    missed.write(f'{stem}: {name}:{n}\n')
    if total:
        print(f'coverage\tcorpus_{stem[5:]}\t{100.0 * hit / total:.1f}')
