# The targets of this repository; `make help` lists them. No configure step: a C compiler with libc's headers and make
# are enough for demo, test and bench. CC, CXX, CFLAGS, LDFLAGS and LDLIBS are respected. All output goes to build/.

ifeq ($(origin CXX), default)
CXX = c++
endif
CFLAGS ?= -O2
BUILD ?= build
DEMO_SECONDS ?= 10
FUZZ_SECONDS ?= 60
ARGS ?=

HEADERS := $(wildcard cb_*.h)
TESTS := $(patsubst tests/test_%.c,%,$(wildcard tests/test_*.c))
BENCHES := $(patsubst bench/bench_%.c,%,$(wildcard bench/bench_*.c))
BUDGETS := $(patsubst bench/budget_%.c,%,$(wildcard bench/budget_*.c))
PROGRAMS := $(patsubst tests/programs/%.c,%,$(wildcard tests/programs/*.c))
FUZZERS := $(patsubst tests/fuzz/fuzz_%.c,%,$(wildcard tests/fuzz/fuzz_*.c))
NAMES := $(patsubst cb_%.h,%,$(HEADERS))
SUPPORT := $(wildcard tests/support/*.h bench/support/*.h tests/programs/*.h)
# of a program that a wrapper in the same folder includes, only the wrapper is built
WRAPPED := $(shell grep -hos '^.include "[a-z0-9_/]*[.]c"' tests/programs/*.c | sed 's/.*["\/]\([a-z0-9_]*\)[.]c"/\1/')
# warnings of the programs: the strict list; a sanitizer's own code makes gcc see conversions that nobody wrote
STRICT = $(if $(findstring -fsanitize,$(CFLAGS)),-Wall -Wextra,$$(sh tests/tools/flags.sh "$(CC)"))
SAN = -g -O1 -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
# parts of the suite; under a sanitizer the examples and documents would only be compiled once more
ALL_PARTS = tests compile programs examples docs fuzz chat wire
PARTS = $(ALL_PARTS)

BUILT_TESTS = $(TESTS:%=$(BUILD)/test_%)
BUILT = $(if $(findstring tests,$(PARTS)),$(BUILT_TESTS)) \
        $(if $(findstring programs,$(PARTS)),$(patsubst %,$(BUILD)/programs/%,$(filter-out $(WRAPPED),$(PROGRAMS)))) \
        $(if $(findstring fuzz,$(PARTS)),$(FUZZERS:%=$(BUILD)/fuzz_%)) \
        $(if $(findstring chat,$(PARTS)),$(if $(wildcard examples/chat/chat.c),$(BUILD)/chat))

.DELETE_ON_ERROR:
.PHONY: all help demo test bench sanitize tsan matrix audit size budgets budgets-update test-poison coverage tidy fnlen \
        ratchet-update mutate clean need-cc built built-benches built-budgets

all: test

help: ## this list
	@awk -F ':.*## ' '/^[a-z<%].*## / { sub(/%/, "<x>", $$1); printf "  make %-16s %s\n", $$1, $$2 }' Makefile
	@echo "  headers, the <x>:     $(NAMES)"

# One line instead of a page of errors where there is no compiler or no libc to compile with.
need-cc:
	@sh tests/tools/need_cc.sh "$(CC)"

demo: need-cc ## the chat service with 100 bots, DEMO_SECONDS=10
	@$(MAKE) --no-print-directory -s $(BUILD)/chat
	@DEMO_SECONDS=$(DEMO_SECONDS) $(BUILD)/chat demo

test: need-cc ## all tests; the last line says `N passed, 0 failed`
	@mkdir -p $(BUILD)
	@$(MAKE) --no-print-directory -k built >$(BUILD)/build.log 2>&1 || { grep -E 'error:|undefined reference|multiple definition|\*\*\* \[' $(BUILD)/build.log | head -20; true; }
	@BUILD="$(BUILD)" CC="$(CC)" CFLAGS="$(CFLAGS)" TESTS="$(TESTS)" PARTS="$(PARTS)" sh tests/tools/run_tests.sh

built: $(BUILT)

built-benches: $(BENCHES:%=$(BUILD)/bench_%)

built-budgets: $(BUDGETS:%=$(BUILD)/budget_%)

test-%: need-cc ## one test program, ARGS=part-of-a-name
	@$(MAKE) --no-print-directory -s $(BUILD)/test_$*
	@$(BUILD)/test_$* $(ARGS)

bench: need-cc ## every figure, one line each; BENCH_QUICK=1 is shorter
	@$(MAKE) --no-print-directory -s built-benches
	@bad=0; for b in $(BENCHES); do $(BUILD)/bench_$$b $(ARGS) || bad=1; done; exit $$bad

bench-%: need-cc ## the figures of one header, ARGS="--name part-of-a-name"
	@$(MAKE) --no-print-directory -s $(BUILD)/bench_$*
	@$(BUILD)/bench_$* $(ARGS)

fuzz-%: need-cc ## fuzzing one parser, FUZZ_SECONDS=60
	@BUILD="$(BUILD)" CC="$(CC)" FUZZ_SECONDS="$(FUZZ_SECONDS)" sh tests/tools/fuzz.sh $*

sanitize: ## all tests under AddressSanitizer and UndefinedBehaviorSanitizer
	@$(MAKE) --no-print-directory BUILD=$(BUILD)/san CFLAGS="$(SAN)" PARTS="tests programs examples fuzz chat" test

tsan: ## the tests of the headers that meet threads under ThreadSanitizer
	@$(MAKE) --no-print-directory BUILD=$(BUILD)/tsan CFLAGS="-g -O1 -fsanitize=thread" PARTS=tests TESTS="$(filter loop rpc,$(TESTS))" test

test-poison: ## all tests with borrowed bytes overwritten when their life ends
	@$(MAKE) --no-print-directory BUILD=$(BUILD)/poison PARTS="tests programs examples fuzz chat" \
	    CFLAGS="$(CFLAGS) $(shell echo $(NAMES:%=-DCB_%_POISON) | tr a-z A-Z)" test

matrix: ## two compilers, all standards, all modes, warnings as errors
	@sh tests/tools/matrix.sh

audit: need-cc ## exports, macros left behind, globals, common blocks, needs
	@CC="$(CC)" CXX="$(CXX)" sh tests/tools/audit.sh $(HEADERS)

fnlen: ## length and depth of the functions
	@if command -v python3 >/dev/null 2>&1; then python3 tests/tools/fnlen.py $(HEADERS); \
	else echo "skip fnlen: python3 is missing (apt-get install python3)"; fi

size: need-cc ## bytes of code a header
	@CC="$(CC)" sh tests/tools/size.sh $(HEADERS)

budgets: need-cc ## instructions and system calls an operation against bench/budgets.tsv
	@$(MAKE) --no-print-directory -s built-budgets
	@BUILD="$(BUILD)" sh tests/tools/budgets.sh $(BUDGETS)

budgets-update: need-cc ## writes bench/budgets.tsv anew
	@$(MAKE) --no-print-directory -s built-budgets
	@BUILD="$(BUILD)" sh tests/tools/budgets.sh --update $(BUDGETS)

coverage: need-cc ## lines that the tests reach; may not fall below tests/tools/ratchet.tsv
	@BUILD="$(BUILD)" sh tests/tools/coverage.sh

tidy: ## clang-tidy findings; may not rise above tests/tools/ratchet.tsv
	@BUILD="$(BUILD)" sh tests/tools/tidy.sh

ratchet-update: ## writes the counts of coverage and tidy anew
	@BUILD="$(BUILD)" sh tests/tools/coverage.sh --update
	@BUILD="$(BUILD)" sh tests/tools/tidy.sh --update

mutate-%: ## changes one header in one place at a time and counts what no test notices, ARGS="--at 400-900"
	@python3 tests/tools/mutate.py cb_$*.h tests/test_$*.c $(ARGS)

clean: ## removes build/
	rm -rf build

$(BUILD)/test_%: tests/test_%.c $(HEADERS) $(SUPPORT)
	@mkdir -p $(BUILD)
	@rm -f $@
	$(CC) $(CFLAGS) -Wall -Wextra -I. $< -o $@ $(LDFLAGS) $(LDLIBS)

$(BUILD)/programs/%: tests/programs/%.c $(wildcard tests/programs/*) $(HEADERS) $(SUPPORT)
	@mkdir -p $(BUILD)/programs
	@rm -f $@
	$(CC) $(CFLAGS) $(STRICT) -I. $< -o $@ $(LDFLAGS) $(LDLIBS)

$(BUILD)/fuzz_%: tests/fuzz/fuzz_%.c tests/support/fuzz_main.c $(HEADERS) $(SUPPORT)
	@mkdir -p $(BUILD)
	@rm -f $@
	$(CC) $(CFLAGS) -Wall -Wextra -I. $< tests/support/fuzz_main.c -o $@ $(LDFLAGS) $(LDLIBS)

$(BUILD)/chat: $(wildcard examples/chat/*.c examples/chat/*.h) $(HEADERS)
	@mkdir -p $(BUILD)
	@rm -f $@
	$(CC) $(CFLAGS) -Wall -Wextra -I. examples/chat/chat.c -o $@ $(LDFLAGS) $(LDLIBS)

$(BUILD)/bench_%: bench/bench_%.c $(wildcard bench/*.h bench/peers/*) $(HEADERS) $(SUPPORT)
	@mkdir -p $(BUILD)
	@rm -f $@
	$(CC) $(CFLAGS) -DNDEBUG -Wall -Wextra -I. $< -o $@ $(LDFLAGS) $(LDLIBS)

$(BUILD)/budget_%: bench/budget_%.c $(wildcard bench/*.h) $(HEADERS) $(SUPPORT)
	@mkdir -p $(BUILD)
	@rm -f $@
	$(CC) -O2 -DNDEBUG -I. $< -o $@ $(LDFLAGS) $(LDLIBS)
