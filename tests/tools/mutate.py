#!/usr/bin/env python3
"""mutate.py HEADER TEST.c [--cc "gcc -O0"] [--at FIRST-LAST] [--every N] [--seconds N] [--jobs N]

One small change to the implementation at a time: build the test, run it, and report the changes that no test notices.
A survivor is a line worth a test or a line that does not matter; reading them is the point, so there is no limit."""
import argparse, concurrent.futures, os, re, shutil, subprocess, sys, tempfile, time

SWAPS = [
    (r'<=', '<'), (r'>=', '>'), (r'(?<![<>=-])<(?![<=])', '<='), (r'(?<![<>=-])>(?![>=])', '>='),
    (r'==', '!='), (r'!=', '=='), (r'&&', '||'), (r'\|\|', '&&'), (r'\+\+', '--'), (r'\+=', '-='), (r'-=', '+='),
    (r'(?<=[\w)\]]) \+ (?=[\w(])', ' - '), (r'(?<=[\w)\]]) - (?=[\w(])', ' + '), (r'<<', '>>'), (r'>>', '<<'),
    (r'(?<=[\w)\]]) & (?=[\w(~])', ' | '), (r'(?<=[\w)\]]) \| (?=[\w(])', ' & '),
    (r'\b(\d+)u\b', lambda m: f'{int(m.group(1)) + 1}u'), (r'\breturn true;', 'return false;'),
    (r'\breturn false;', 'return true;'), (r'(?<![=!<>])= NULL;', '= (void *)1;'), (r'!(?=[a-z(])', ''),
]


def candidates(text, first, last):
    lines, at, comment = text.split('\n'), 0, False
    begin = next(i for i, l in enumerate(lines) if re.match(r'#if defined\(CB_\w+_IMPLEMENTATION\) && !', l))
    for n, line in enumerate(lines):
        code = re.sub(r'/\*.*?\*/', lambda m: ' ' * len(m.group(0)), line)
        if comment:
            comment = '*/' not in code
        elif '/*' in code:
            comment = True
            code = code[:code.index('/*')]
        elif n > begin and first <= n + 1 <= last and not re.match(r'\s*(#|\*|CB_\w+_ASSERT)', code):
            code = re.sub(r'"(\\.|[^"\\])*"', lambda m: '"' + ' ' * (len(m.group(0)) - 2) + '"', code)
            for pattern, to in SWAPS:
                for m in re.finditer(pattern, code):
                    new = to(m) if callable(to) else to
                    yield n + 1, line.strip(), (line[:m.start()] + new + line[m.end():]).strip(), at + m.start(), at + m.end(), new
        at += len(line) + 1


def main():
    p = argparse.ArgumentParser(usage=__doc__)
    p.add_argument('header')
    p.add_argument('test')
    p.add_argument('--cc', default='tcc' if shutil.which('tcc') else 'gcc -O0')
    p.add_argument('--at', default='1-9999999')
    p.add_argument('--every', type=int, default=1)
    p.add_argument('--seconds', type=float, default=20)
    p.add_argument('--jobs', type=int, default=2)
    a = p.parse_args()
    first, last = (int(x) for x in a.at.split('-'))
    text = open(a.header).read()
    todo = list(candidates(text, first, last))[::a.every]
    count = {'killed': 0, 'survived': 0, 'does not compile': 0}
    begin = time.time()

    def one(mutant):
        line, old, new, start, end, put = mutant
        d = tempfile.mkdtemp(prefix='mutate')
        try:
            with open(os.path.join(d, os.path.basename(a.header)), 'w') as f:
                f.write(text[:start] + put + text[end:])
            exe = os.path.join(d, 't')
            # the folder of the changed header comes first, then the repository
            build = a.cc.split() + ['-w', f'-I{d}', '-I.', a.test, '-o', exe]
            if subprocess.run(build, capture_output=True).returncode:
                return 'does not compile', mutant
            try:
                rc = subprocess.run([exe], stdin=subprocess.DEVNULL, capture_output=True, timeout=a.seconds).returncode
            except subprocess.TimeoutExpired:
                rc = 124
            return ('killed' if rc else 'survived'), mutant
        finally:
            shutil.rmtree(d, ignore_errors=True)

    with concurrent.futures.ThreadPoolExecutor(a.jobs) as pool:
        for result, (line, old, new, *_) in pool.map(one, todo):
            count[result] += 1
            if result == 'survived':
                print(f'{a.header}:{line}: {old[:90]}\n{" " * len(a.header)}    -> {new[:90]}', flush=True)
    print(f'{len(todo)} mutants: ' + ', '.join(f'{v} {k}' for k, v in count.items()) + f', {time.time() - begin:.0f} s')


if __name__ == '__main__':
    sys.exit(main())
