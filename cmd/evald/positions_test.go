package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/evald/evald/engine/durable"
	"github.com/evald/evald/engine/durable/durabletest"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/record"
	"github.com/evald/evald/engine/record/recordtest"
	"github.com/evald/evald/engine/sample"
)

// positionsIn returns the arguments for small sets in a folder.
func positionsIn(dir string, more ...string) []string {
	return append([]string{"positions", "-o", dir, "--rules", "5x4x4", "--count", "40"}, more...)
}

var kindNames = []string{"random", "plausible", "openings"}

func readSets(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := gametest.Must(filepath.Glob(filepath.Join(dir, "*")))(t)
	sets := map[string]string{}
	for _, file := range files {
		text := getFile(t, file)
		sets[filepath.Base(file)] = string(text)
	}
	return sets
}

// The same command writes the same bytes with any number of threads and any book, another seed gives others, and the scores
// are those of evald solve.
func TestPositions(t *testing.T) {
	dir, again, other := t.TempDir(), t.TempDir(), t.TempDir()
	status, out, stderr := evald(t, "", positionsIn(dir, "--threads", "1")...)
	if status != exitOK || stderr != "" || strings.Count(out, ": 40 positions of ") != 3 {
		t.Fatalf("status %d, output %q, errors %q", status, out, stderr)
	}
	book := filepath.Join(t.TempDir(), "book")
	must(t, "", "solve", "--build-book", book, "--rules", "5x4x4", "--plies", "3")
	for into, flags := range map[string][]string{again: {"--threads", "3", "--book", book}, other: {"--seed", "8"}} {
		must(t, "", positionsIn(into, flags...)...)
	}
	sets, same, others := readSets(t, dir), readSets(t, again), readSets(t, other)
	if len(sets) != 3 {
		t.Errorf("%d files, want 3", len(sets))
	}
	for _, kind := range kindNames {
		set := sets[kind+".txt"]
		if set != same[kind+".txt"] {
			t.Errorf("%s: the same command wrote another file", kind)
		}
		head, lines, _ := strings.Cut(set, "\n")
		_, otherLines, _ := strings.Cut(others[kind+".txt"], "\n")
		if lines == otherLines {
			t.Errorf("%s: another seed gave the same positions", kind)
		}
		if want := "# 5x4x4, " + kind + " play, "; !strings.HasPrefix(head, want) {
			t.Errorf("%s begins with %q, want %q", kind, head, want)
		}
		var moves strings.Builder
		for line := range strings.Lines(lines) {
			m, _, _ := strings.Cut(line, " ")
			moves.WriteString(m + "\n")
		}
		if _, exact, stderr := evald(t, moves.String(), "solve", "--scores", "--format", "text"); exact != lines {
			t.Errorf("%s: the scores are others than those of evald solve, %s\n%s\n%s", kind, stderr, lines, exact)
		}
	}
}

// journalOf is the journal of a whole set.
func journalOf(t *testing.T, set string) string {
	t.Helper()
	head, lines, _ := strings.Cut(set, "\n")
	head, _, _ = strings.Cut(head, "; crc32")
	journal := head + "\n"
	for line := range strings.Lines(lines) {
		words := strings.Fields(line)
		p := solvedPosition{Position: words[0]}
		for _, word := range words[1:] {
			s := gametest.Must(strconv.Atoi(word))(t)
			p.Scores = append(p.Scores, s)
		}
		text := gametest.Must(durable.Marshal(p))(t)
		journal += string(text) + "\n"
	}
	return journal
}

// Complete files are left alone, interrupted ones are continued, and torn lines do not matter: the files end up the same.
func TestPositionsResumed(t *testing.T) {
	whole, few := t.TempDir(), []string{"--count", "15", "--kinds", "random,plausible"}
	must(t, "", positionsIn(whole, few...)...)
	want := readSets(t, whole)
	set := journalOf(t, want["plausible.txt"])
	head := set[:strings.IndexByte(set, '\n')+1]
	for name, partial := range map[string]string{
		"nothing": "", "a torn first line": head[:9], "the first line": head, "some lines": set[:len(set)/2], "all lines": set,
	} {
		dir := t.TempDir()
		for file, text := range map[string]string{"plausible.txt.partial": partial, "random.txt": want["random.txt"]} {
			putFile(t, filepath.Join(dir, file), text)
		}
		status, out, stderr := evald(t, "", positionsIn(dir, few...)...)
		if status != exitOK || !strings.Contains(out, "random.txt: 15 positions, from before") {
			t.Fatalf("%s: status %d, output %q, errors %q", name, status, out, stderr)
		}
		got := readSets(t, dir)
		for file, text := range want {
			if got[file] != text {
				t.Errorf("%s: %s is another file", name, file)
			}
		}
		if len(got) != len(want) {
			t.Errorf("%s: %d files, want %d", name, len(got), len(want))
		}
	}
	// Scores in a journal are not solved again: a wrong score in it appears in the result.
	wholeHead, lines, _ := strings.Cut(want["plausible.txt"], "\n")
	moves, _, _ := strings.Cut(lines, " ")
	marked := moves + " 1 1 1 1 1\n"
	dir := t.TempDir()
	putFile(t, filepath.Join(dir, "plausible.txt.partial"), journalOf(t, wholeHead+"\n"+marked))
	evald(t, "", positionsIn(dir, few...)...)
	got := readSets(t, dir)["plausible.txt"]
	if gotHead, lines, _ := strings.Cut(got, "\n"); !strings.HasPrefix(lines, marked) || len(gotHead) != len(wholeHead) {
		t.Errorf("solved again: %.300q", got)
	}
}

// interrupting is a book that knows nothing and interrupts the program once the journal has a position.
type interrupting struct {
	journal string
	cancel  func()
}

func (b interrupting) Score(game.Position) (int, bool) {
	if text, err := os.ReadFile(b.journal); err == nil && bytes.Count(text, []byte("\n")) > 1 {
		b.cancel()
	}
	return 0, false
}

// An interrupt ends the command, which says what is kept. The same command then completes the same file.
func TestPositionsInterrupted(t *testing.T) {
	whole, dir := t.TempDir(), t.TempDir()
	must(t, "", positionsIn(whole, "--kinds", "openings")...)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := positionsCmd{Out: dir, Seed: 7, Count: 40}
	set := c.set(game.MustBoard(game.Rules{Rows: 4, Columns: 5, InARow: 4, Gravity: true}), sample.Openings)
	if _, err := set.make(ctx, interrupting{set.partial(), cancel}, 2, newProgress(io.Discard, 0)); !errors.Is(err, context.Canceled) {
		t.Fatalf("not interrupted: %v", err)
	}
	kept := strings.Count(readSets(t, dir)["openings.txt.partial"], "\n") - 1
	if kept < 1 || kept >= 40 || kept != set.kept {
		t.Errorf("%d positions in the journal, %d kept", kept, set.kept)
	}
	var stderr bytes.Buffer
	status := run(ctx, positionsIn(dir, "--kinds", "openings"), streams{strings.NewReader(""), io.Discard, &stderr})
	if want := fmt.Sprintf("evald: interrupted; 0 of 1 kinds are complete, of openings %d positions are kept; the same command resumes it\n", kept); status != exitInterrupted || stderr.String() != want {
		t.Errorf("status %d, errors %q, want %q", status, stderr.String(), want)
	}
	must(t, "", positionsIn(dir, "--kinds", "openings")...)
	if diff := cmp.Diff(readSets(t, whole), readSets(t, dir)); diff != "" {
		t.Errorf("files after an interrupt (-want +got):\n%s", diff)
	}
}

// With --nodes a set has those positions of the whole one that take no more, and says how many of each number of stones it lacks, also
// after an interrupt and with any number of threads. Records of exact results have them alike.
func TestPositionsNodes(t *testing.T) {
	args := func(dir string, more ...string) []string {
		return append([]string{"positions", "-o", dir, "--rules", "6x5x4", "--count", "60", "--kinds", "random"}, more...)
	}
	whole, some, again, records := t.TempDir(), t.TempDir(), t.TempDir(), t.TempDir()
	must(t, "", args(whole)...)
	said := must(t, "", args(some, "--nodes", "400", "--threads", "1")...)
	all, set := readSets(t, whole)["random.txt"], readSets(t, some)["random.txt"]
	head, lines, _ := strings.Cut(set, "\n")
	kept, left := 0, 0
	for line := range strings.Lines(lines) {
		if line[0] != '#' {
			if kept++; !strings.Contains(all, "\n"+line) {
				t.Errorf("%q is not in the whole set", line)
			}
			continue
		}
		var drawn, stones, n int
		gametest.Must(fmt.Sscanf(line, "# of %d positions of %d stones, %d take more nodes and are left out\n", &drawn, &stones, &n))(t)
		if left += n; n > drawn || n == 0 {
			t.Errorf("%q", line)
		}
	}
	if kept+left != 60 || kept < 10 || left < 10 || !strings.Contains(head, "--count 60 --nodes 400; crc32") || !strings.Contains(said, fmt.Sprintf("%d others take more than 400 nodes", left)) {
		t.Errorf("%d positions are kept and %d left out, %q, %q", kept, left, head, said)
	}
	// Half of the journal of an interrupted run, with the positions that were left out.
	journal, _, _ := strings.Cut(head, "; crc32")
	journal += "\n"
	for line := range strings.Lines(all[strings.IndexByte(all, '\n')+1:]) {
		p := solvedPosition{Position: strings.Fields(line)[0]}
		if strings.Contains(set, "\n"+line) {
			for _, word := range strings.Fields(line)[1:] {
				p.Scores = append(p.Scores, gametest.Must(strconv.Atoi(word))(t))
			}
		}
		journal += string(gametest.Must(durable.Marshal(p))(t)) + "\n"
	}
	for _, partial := range []string{"", journal[:len(journal)/2], journal} {
		gametest.OK(t, os.RemoveAll(again))
		gametest.OK(t, os.MkdirAll(again, 0o755))
		putFile(t, filepath.Join(again, "random.txt.partial"), partial)
		must(t, "", args(again, "--nodes", "400", "--threads", "3")...)
		if got := readSets(t, again)["random.txt"]; got != set {
			t.Errorf("another set after %d bytes of the journal:\n%s", len(partial), cmp.Diff(set, got))
		}
	}
	if out := must(t, "", args(some, "--nodes", "400")...); !strings.Contains(out, fmt.Sprintf("%d positions, from before", kept)) {
		t.Errorf("a complete set: %q", out)
	}
	refuses(t, exitBadInput, "random.txt is another set of positions", "", args(some, "--nodes", "500")...)
	refuses(t, exitBadInput, "--nodes 1: each of 5 positions takes more", "", "positions", "-o", t.TempDir(), "--rules", "8x8x4", "--count", "5", "--kinds", "openings", "--nodes", "1")
	made := func(more ...string) int64 {
		t.Helper()
		gametest.OK(t, os.RemoveAll(records))
		must(t, "", args(records, append(more, "--train")...)...)
		r := gametest.Must(record.Open(filepath.Join(records, "random-00000.parquet")))(t)
		defer r.Close()
		return r.Rows()
	}
	if few, many := made("--nodes", "20"), made(); few*2 > many || few == 0 {
		t.Errorf("%d records with 20 nodes, %d with any number", few, many)
	}
}

// Errors name the way out, and no existing file is lost.
func TestPositionsErrors(t *testing.T) {
	dir := t.TempDir()
	must(t, "", positionsIn(dir, "--kinds", "random")...)
	foreign := t.TempDir()
	for _, name := range []string{"openings.txt.partial", "random.txt"} {
		putFile(t, filepath.Join(foreign, name), "mine")
	}
	book := filepath.Join(t.TempDir(), "book")
	must(t, "", "solve", "--build-book", book, "--rules", "4x4x4", "--plies", "1")
	torn := t.TempDir()
	set := readSets(t, dir)["random.txt"]
	putFile(t, filepath.Join(torn, "random.txt.partial"), journalOf(t, set[:strings.IndexByte(set, '\n')+1]+"5x4x4:1 2\n"))
	for _, c := range []struct {
		want string
		args []string
	}{
		{"random.txt is another set of positions", positionsIn(dir, "--seed", "9")},
		{"random.txt is another set of positions", positionsIn(foreign, "--kinds", "plausible,random")},
		{"openings.txt.partial is another set of positions", positionsIn(foreign, "--kinds", "openings")},
		{"random.txt.partial: line 2: has 1 score, that of the position", positionsIn(torn)},
		{"no such file", positionsIn(t.TempDir(), "--book", book+".none")},
		{"--rules", positionsIn(t.TempDir(), "--rules", "5x")},
		{"--kinds must be one of", positionsIn(dir, "--kinds", "usual")},
		{"has no position of", []string{"positions", "-o", t.TempDir(), "--rules", "3x3x1"}},
	} {
		wrong := exitBadInput
		if strings.HasPrefix(c.want, "--") {
			wrong = exitUsage
		}
		refuses(t, wrong, c.want, "", c.args...)
	}
	if text := readSets(t, foreign); text["random.txt"] != "mine" || text["openings.txt.partial"] != "mine" || len(text) != 2 {
		t.Errorf("what was there is %v now", text)
	}
	if out := must(t, "", "positions", "-o", t.TempDir(), "--rules", "3x3x3", "--kinds", "random"); !strings.Contains(out, "the board has no more") {
		t.Errorf("a small board: %q", out)
	}
}

// Each file is a kind with a row of its own. With --raw, which skips the rules' step, fewer
// answers are good.
func TestScoreKinds(t *testing.T) {
	dir := t.TempDir()
	must(t, "", positionsIn(dir, "--count", "200")...)
	files := []string{filepath.Join(dir, "random.txt"), filepath.Join(dir, "plausible.txt"), filepath.Join(dir, "openings.txt")}
	measured := func(in string, args ...string) namedReport {
		t.Helper()
		out := must(t, in, append([]string{"score", "--backend", "uniform", "--json"}, args...)...)
		var reports []namedReport
		if err := json.Unmarshal([]byte(out), &reports); err != nil || len(reports) != 1 {
			t.Fatalf("%v: %v", args, err)
		}
		return reports[0]
	}
	ruled, raw := measured("", files...), measured("", append(files, "--raw")...)
	if ruled.Model != "uniform" || raw.Model != "uniform, raw" || len(ruled.Kinds) != 3 {
		t.Fatalf("%s, %s, %d kinds", ruled.Model, raw.Model, len(ruled.Kinds))
	}
	for i, kind := range ruled.Kinds {
		if kind.Name != kindNames[i] {
			t.Errorf("kind %d is %s, want %s", i, kind.Name, kindNames[i])
		}
	}
	if a, b := ruled.Kinds[0].Good, raw.Kinds[0].Good; a.Low <= b.Value {
		t.Errorf("random play: %v good with the rules' step, %v without", a, b)
	}
	text := getFile(t, files[0])
	if two := measured(string(text), "-", files[1]); two.Kinds[0].Name != "-" || two.Kinds[0].Good != ruled.Kinds[0].Good {
		t.Errorf("standard input: %+v", two.Kinds)
	}
	table := must(t, "", append([]string{"score", "--backend", "uniform"}, files...)...)
	if a, b, c := strings.Index(table, " random "), strings.Index(table, " openings "), strings.Index(table, " plies "); !(0 < a && a < b && b < c) {
		t.Errorf("rows of kinds come before those of plies: %s", table)
	}
	boards := filepath.Join(t.TempDir(), "4x4x3")
	must(t, "", "positions", "-o", boards, "--rules", "4x4x3", "--kinds", "random", "--count", "30")
	two := measured("", files[0], filepath.Join(boards, "random.txt"))
	if b := two.Boards; len(b) != 2 || b[1].Name != "4x4x3" || b[1].Positions != 30 || two.Kinds[1].Name != "4x4x3/random" || two.Bands[0].Name != "seventh 1" {
		t.Errorf("two boards: %+v", two)
	}
	changed := filepath.Join(dir, "changed.txt")
	putFile(t, changed, bytes.Replace(text, []byte(" 0"), []byte(" 1"), 1))
	for want, args := range map[string][]string{
		changed + ": is damaged: the checksum":                   {files[1], changed},
		"would both be called " + filepath.Base(dir) + "/random": {files[0], files[0]},
		"no positions":                    {files[0], "-"},
		"--raw does nothing with --agent": {files[0], "--agent", "random", "--raw"},
		"--visits asks for searches only": {files[0], "--raw", "--visits", "10"},
		"openings.text: no such file":     {files[0], filepath.Join(dir, "openings.text")},
	} {
		wrong := exitBadInput
		if strings.HasPrefix(want, "--") {
			wrong = exitUsage
		}
		refuses(t, wrong, want, "", append([]string{"score"}, args...)...)
	}
}

// A set with a damaged byte, complete or half done, is refused with the file's name, or ends with the same lines.
func TestPositionsDamaged(t *testing.T) {
	whole, half := t.TempDir(), t.TempDir()
	few := []string{"--rules", "4x4x4", "--count", "12", "--kinds", "random"}
	must(t, "", positionsIn(whole, few...)...)
	journal := strings.SplitAfterN(journalOf(t, readSets(t, whole)["random.txt"]), "\n", 9)
	putFile(t, filepath.Join(half, "random.txt.partial"), strings.Join(journal[:8], ""))
	for _, dir := range []string{whole, half} {
		durabletest.Damage(t, dir, 5, nil, func(dir string) (string, error) {
			if status, _, stderr := evald(t, "", positionsIn(dir, few...)...); status != exitOK {
				return "", errors.New(stderr)
			}
			_, lines, _ := strings.Cut(readSets(t, dir)["random.txt"], "\n")
			return lines, nil
		})
	}
}

// Records of exact results are made a file at a time, the same ones again, and evald train learns from them.
func TestPositionsTrain(t *testing.T) {
	dir := t.TempDir()
	args := []string{"positions", "-o", dir, "--train", "--rules", "5x4x4", "--kinds", "random", "--seed", "5", "--count"}
	status, out, stderr := evald(t, "", append(args, "900")...)
	if status != exitOK || !strings.Contains(out, ": 1 files of records, 0 of them from before; ") {
		t.Fatalf("status %d, output %q, errors %q", status, out, stderr)
	}
	first := filepath.Join(dir, "random-00000.parquet")
	before := getFile(t, first)
	gametest.OK(t, os.Remove(first))
	if status, out, stderr := evald(t, "", append(args, "2000")...); status != exitOK || !strings.Contains(out, ": 2 files of records, 0 of them") {
		t.Fatalf("status %d, output %q, errors %q", status, out, stderr)
	}
	if after, err := os.ReadFile(first); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the file that was removed is another: %v", err)
	}
	if status, out, _ := evald(t, "", append(args, "1500")...); status != exitOK || !strings.Contains(out, ": 2 files of records, 2 of them from before; 0 records") {
		t.Errorf("again: status %d, output %q", status, out)
	}
	parts := t.TempDir()
	for _, part := range []string{"2/3", "0/3", "1/3", "0/3"} { // the last is there already
		must(t, "", "positions", "-o", parts, "--train", "--rules", "5x4x4", "--kinds", "random,openings", "--seed", "5", "--count", "2000", "--part", part)
	}
	must(t, "", append(args, "2000", "--kinds", "random,openings")...)
	if d := cmp.Diff(written(t, dir), written(t, parts), cmpopts.IgnoreMapEntries(func(name string, _ string) bool { return name == "lock" })); d != "" {
		t.Errorf("one run and three parts:\n%s", d)
	}
	refuses(t, exitBadInput, "the run has seed 5, and now it is 6", "", "positions", "-o", dir, "--train", "--rules", "5x4x4", "--seed", "6")
	book := t.TempDir()
	if _, out, _ := evald(t, "", "positions", "-o", book, "--train", "--kinds", "book", "--plies", "2-3"); !strings.Contains(out, ": 2 files of records, 0 of them from before; 146 records") {
		t.Errorf("of the book: output %q", out) // 25 and 121: of 49 and 238 positions 1 and 4 are their own mirror images
	}
	for text, args := range map[string][]string{
		"the run has plies \"2-3\", and now it is":           {"-o", book, "--train", "--kinds", "book", "--plies", "2"},
		"--plies \"3-2\": want a number of stones":           {"-o", book, "--train", "--plies", "3-2"},
		"--plies 11: the results of 7x6x4 ship for up to 10": {"-o", book, "--train", "--kinds", "book", "--plies", "11"},
		"the results of no first plies of 5x4x4 ship":        {"-o", book, "--train", "--kinds", "book", "--rules", "5x4x4"},
		"--plies 2: is taken with --train alone":             {"-o", book, "--plies", "2"},
		"--kinds book: is taken with --train alone":          {"-o", book, "--kinds", "book"},
	} {
		if status, _, stderr := evald(t, "", append([]string{"positions"}, args...)...); status == exitOK || !strings.Contains(stderr, text) {
			t.Errorf("%v: status %d, errors %q, want %q", args, status, stderr, text)
		}
	}
	run := filepath.Join(t.TempDir(), "run")
	must(t, "", "train", first, "-o", run, "--rules", "5x4x4", "--network", "1x4/4/6", "--batch", "32", "--steps", "3", "--threads", "1")
}

// Positions also come from records of self-play, each file used once. If files are missing, the same command adds them.
func TestPositionsFromGames(t *testing.T) {
	run, dir := filepath.Join(t.TempDir(), "run"), filepath.Join(t.TempDir(), "exact")
	must(t, "", "selfplay", "-o", run, "--rules", "4x4x3", "--games", "600", "--visits", "4", "--backend", "bitsquares")
	files, err := filepath.Glob(filepath.Join(run, "*.parquet"))
	if err != nil || len(files) != 2 {
		t.Fatalf("files %v, error %v", files, err)
	}
	args := append([]string{"positions", "-o", dir, "--train", "--rules", "4x4x3"}, slices.Repeat(files, 2)...)
	status, out, stderr := evald(t, "", args...)
	if status != exitOK || !strings.Contains(out, ": 2 files of records, 0 of them from before; ") {
		t.Fatalf("status %d, output %q, errors %q", status, out, stderr)
	}
	first := filepath.Join(dir, filepath.Base(files[0]))
	before := getFile(t, first)
	gametest.OK(t, os.Remove(first))
	if status, out, _ := evald(t, "", args...); status != exitOK || !strings.Contains(out, ": 2 files of records, 1 of them from before; ") {
		t.Errorf("again: status %d, output %q", status, out)
	}
	if after, err := os.ReadFile(first); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the file that was removed is another: %v", err)
	}
	elsewhere := filepath.Join(t.TempDir(), "copy.parquet")
	putFile(t, elsewhere, before)
	some := filepath.Join(t.TempDir(), "some")
	must(t, "", "positions", "-o", some, "--train", "--rules", "4x4x3", "--plies", "2-4", elsewhere)
	for _, rec := range recordtest.Read(t, filepath.Join(some, "copy.parquet")) {
		if rec.Ply < 2 || rec.Ply > 5 { // 5 after a random move
			t.Fatalf("%+v: want 2 to 4 stones", rec)
		}
	}
	for text, args := range map[string][]string{
		"--count does nothing with FILES":                  slices.Concat(args, []string{"--count", "7"}),
		"--kinds does nothing with FILES":                  slices.Concat(args, []string{"--kinds", "random"}),
		"is taken with --train alone":                      {"positions", "-o", dir, files[0]},
		"is in the folder of the files to make":            {"positions", "-o", run, "--train", "--rules", "4x4x3", files[0]},
		"is not in " + run + " as the others are":          slices.Concat(args, []string{elsewhere}),
		"the run has from \"" + run + "\", and now it is ": {"positions", "-o", dir, "--train", "--rules", "4x4x3", elsewhere},
		"row 0: is of 4x4x3, and the results are of 7x6x4": {"positions", "-o", t.TempDir(), "--train", files[0]},
	} {
		if status, _, stderr := evald(t, "", args...); status != exitBadInput && status != exitUsage || !strings.Contains(stderr, text) {
			t.Errorf("%v: status %d, errors %q, want %q", args, status, stderr, text)
		}
	}
}
