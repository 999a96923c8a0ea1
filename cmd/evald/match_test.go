package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/parquet-go/parquet-go"

	"github.com/evald/evald/engine/arena"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/mcts/opening"
	"github.com/evald/evald/kernels/cuda/driver"
)

var (
	duration = regexp.MustCompile(`\b[0-9.]+(ns|µs|ms|s)\b`)
	blanks   = regexp.MustCompile(` +`)
	// untimed compares games without their times.
	untimed = cmpopts.IgnoreFields(arena.Game{}, "FirstSeconds", "SecondSeconds", "FirstLongest", "SecondLongest")
)

// timeless removes times from a table, and the blanks that depend on them.
func timeless(table string) string {
	return blanks.ReplaceAllString(duration.ReplaceAllString(table, "T"), " ")
}

func readGames(t *testing.T, path string) []arena.Game {
	t.Helper()
	return gametest.Must(parquet.ReadFile[arena.Game](path))(t)
}

func TestMatch(t *testing.T) {
	dir := t.TempDir()
	path, svg := filepath.Join(dir, "games.parquet"), filepath.Join(dir, "cross.svg")
	args := strings.Fields("match negamax random policy random --games 6 --seed 1 --threads 3 --plot " + svg + " -o " + path)
	status, out, stderr := evald(t, "", args...)
	if status != exitOK || !strings.HasPrefix(stderr, "evald match: 7x6x4, 36 games of 4 players, 6 a pair; openings random of 4 plies, seed 1; 3 at once; games in ") {
		t.Errorf("status %d, errors %q", status, stderr)
	}
	golden(t, "match.txt", timeless(out))
	games := readGames(t, path)
	if len(games) != 36 || games[0].First != "negamax" || games[35].Number != 36 {
		t.Errorf("%d games: %+v", len(games), games)
	}
	picture, err := os.ReadFile(svg)
	if err != nil || !bytes.Contains(picture, []byte(">random#2</text>")) || bytes.Count(picture, []byte("<rect")) != 1+16 {
		t.Errorf("plot: %v, %s", err, picture)
	}
	// A second time, all games exist.
	before, err := os.Stat(path)
	gametest.OK(t, err)
	status, out, stderr = evald(t, "", append(args, "--json")...)
	var report matchReport
	if err := json.Unmarshal([]byte(out), &report); err != nil || status != exitOK || !strings.Contains(stderr, "36 there") {
		t.Errorf("again: status %d, %v, errors %q", status, err, stderr)
	}
	if report.Games != 36 || report.Rules != "7x6x4" || report.Seed != 1 || len(report.Standings) != 4 || len(report.Meetings) != 6 || report.SPRT != nil {
		t.Errorf("report %+v", report)
	}
	if after, err := os.Stat(path); err != nil || after.Size() != before.Size() {
		t.Errorf("the file of a finished match was changed: %v", err)
	}
}

// Two and four games are too few for a rating and a probability, and every form of the result says so.
func TestMatchTooFew(t *testing.T) {
	svg := filepath.Join(t.TempDir(), "cross.svg")
	for _, args := range []string{"match random random --games 2", "match uct:sims=200 random --games 4"} {
		out := must(t, "", strings.Fields(args+" --plot "+svg)...)
		if !strings.Contains(out, "  ?  too few games  ") || !strings.Contains(out, ":\ntoo few games to tell which is better, play more with --games\npairs of games") || strings.Contains(out, "probability") {
			t.Errorf("%s: %s", args, out)
		}
		if picture := getFile(t, svg); strings.Count(string(picture), ">? too few games</text>") != 2 {
			t.Errorf("%s: plot %s", args, picture)
		}
		if out := must(t, "", strings.Fields(args+" --json")...); strings.Count(out, `"too_few_games": true`) != 3 {
			t.Errorf("%s: %s", args, out)
		}
	}
}

// A book grows during a match and from one match to the next, and agents play its moves.
func TestMatchBook(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.book")
	positions := func() int { return gametest.Must(opening.Load(path))(t).Positions() }
	args := strings.Fields("match uct-bitsquares:sims=500 random --games 2 --seed 1 --grow-book " + path)
	must(t, "", args...)
	first := positions()
	args = slices.Insert(args, 1, "mcts:model=bitsquares,visits=600,book="+path)
	must(t, "", args...)
	if second := positions(); first < 5 || second <= first {
		t.Errorf("%d positions after a match, %d after another", first, second)
	}
	for want, args := range map[string]string{
		"is for 7x6x4, and this is 9x5x4": "match mcts random --rules 9x5x4 --grow-book " + path,
		"is for 7x6x4, and this is 8x6x4": "match mcts:book=" + path + " random --rules 8x6x4",
		"missing.book":                    "match mcts:book=missing.book random",
		"is not a gzip file":              "match mcts random --grow-book match_test.go",
	} {
		refuses(t, exitBadInput, want, "", strings.Fields(args)...)
	}
}

// An interrupted match shows its standings, keeps its games, and when continued ends like an uninterrupted one.
func TestMatchInterrupted(t *testing.T) {
	dir := t.TempDir()
	path, whole := filepath.Join(dir, "games.parquet"), filepath.Join(dir, "whole.parquet")
	const agents = "match uct:sims=30 negamax --seed 2 --opening-plies 2 -o "
	must(t, "", strings.Fields(agents+whole+" --games 8")...)
	evald(t, "", strings.Fields(agents+path+" --games 2")...)
	ctx, cancel := context.WithCancel(t.Context())
	var out bytes.Buffer
	notes := &cancelAtWrite{cancel: cancel} // its first message is the configuration
	status := run(ctx, strings.Fields(agents+path+" --games 8"), streams{strings.NewReader(""), &out, notes})
	if status != exitInterrupted || !strings.HasSuffix(notes.String(), "evald: interrupted after 2 of 8 games; the same command resumes it\n") || !strings.Contains(out.String(), "uct:sims=30") {
		t.Errorf("status %d, output %q, errors %q", status, out.String(), notes.String())
	}
	if games := readGames(t, path); len(games) != 2 {
		t.Errorf("%d games, want 2", len(games))
	}
	if status, _, stderr := evald(t, "", strings.Fields(agents+path+" --games 8")...); status != exitOK || !strings.Contains(stderr, "2 there") {
		t.Errorf("status %d, errors %q", status, stderr)
	}
	if diff := cmp.Diff(readGames(t, whole), readGames(t, path), untimed); diff != "" {
		t.Error(diff)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 2 {
		t.Errorf("files %v, %v; want two records", files, err)
	}
}

func TestMatchSPRT(t *testing.T) {
	path := filepath.Join(t.TempDir(), "games.parquet")
	args := strings.Fields("match random uct:sims=50 --sprt 0,100 --games 200 -o " + path)
	status, out, stderr := evald(t, "", args...)
	if status != exitOK || !strings.Contains(out, "SPRT of 0 against 100 Elo for the first agent: 0 accepted,\nLLR -") {
		t.Errorf("status %d, %s, errors %q", status, out, stderr)
	}
	games := len(readGames(t, path))
	if games < 4 || games > 100 {
		t.Errorf("decided after %d games", games)
	}
	// A decided match stays decided.
	_, again, _ := evald(t, "", args...)
	if timeless(again) != timeless(out) || len(readGames(t, path)) != games {
		t.Errorf("again: %s, want %s", again, out)
	}
	_, out, _ = evald(t, "", "match", "random", "random", "--sprt=-1,1", "--games", "4", "--json")
	var report matchReport
	if err := json.Unmarshal([]byte(out), &report); err != nil || report.SPRT == nil || report.SPRT.Verdict != arena.Undecided || report.SPRT.Elo0 != -1 {
		t.Errorf("%v, %s", err, out)
	}
}

// Openings can come from a file; they repeat if it has too few.
func TestMatchOpenings(t *testing.T) {
	dir := t.TempDir()
	book, path := filepath.Join(dir, "book"), filepath.Join(dir, "games.parquet")
	putFile(t, book, "# mine\n5x4x4:33 and more\n\n5x4x4:-\n")
	status, _, stderr := evald(t, "", "match", "random", "negamax", "--rules", "5x4x4", "--openings", book, "--games", "6", "-o", path)
	if status != exitOK || !strings.Contains(stderr, "only 2 different openings for 3 pairs of games: they repeat") {
		t.Errorf("status %d, errors %q", status, stderr)
	}
	var openings []string
	for _, g := range readGames(t, path) {
		openings = append(openings, g.OpeningMoves)
	}
	if want := strings.Fields("5x4x4:33 5x4x4:33 5x4x4:- 5x4x4:- 5x4x4:33 5x4x4:33"); !slices.Equal(openings, want) {
		t.Errorf("openings %v, want %v", openings, want)
	}
	for text, want := range map[string]string{
		"44\n":                     "line 1: opening 44 is of 7x6x4, the match of 5x4x4: write 5x4x4:44",
		"#\n":                      "no positions",
		strings.Repeat("x", 1<<17): "longer than",
	} {
		putFile(t, book, text)
		refuses(t, exitBadInput, want, "", "match", "random", "negamax", "--rules", "5x4x4", "--openings", book)
	}
}

// The help lists the agents.
func TestMatchHelp(t *testing.T) {
	if out := must(t, "", "match", "--help"); !strings.Contains(out, "- uct-bitsquares: UCT, bitsquares at each leaf, with power=1.75") {
		t.Errorf("help %s", out)
	}
}

// Below the table is the network that plays short moves. A search that counts visits keeps the
// network that ships.
func TestMatchShortMoves(t *testing.T) {
	out := must(t, "", "match", "mcts:time=2ms", "mcts:visits=2", "--games", "2", "--threads", "1")
	const chosen = ": mcts:model=default-fast,time=2ms\n"
	_, err := driver.Find()
	if strings.Contains(out, chosen) != (err != nil) || !strings.Contains(out, " mcts:time=2ms ") || !strings.Contains(out, " mcts:visits=2 ") {
		t.Errorf("the table is %q; without a GPU it must have %q", out, chosen)
	}
}

// The table has the names that the user typed, in 80 columns.
func TestMatchNames(t *testing.T) {
	long := "human:model=default-fast,ahead=2,threats=0.25,diagonals=0.4,temperature=7" // which is casual in full
	longest := "mcts:model=seeded-2x16,visits=10,explore=1.4142135623730951,exact=100000,leaves=3"
	out := must(t, "", "match", "casual", "casual", long, longest, "--games", "2", "--rules", "4x4x3", "--threads", "1")
	for _, want := range []string{" casual  ", " casual#2  ", " human:model=defau…  ", ": mcts:model=seeded-2x16,visits=10,leaves=3,explore=1.4142135623730951,\n   exact=100000\n", ": " + long + "\n", ": " + long + "#3\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("the table lacks %q:\n%s", want, out)
		}
	}
	for line := range strings.Lines(out) {
		if n := len([]rune(line)); n > 81 {
			t.Errorf("a line has %d columns: %s", n-1, line)
		}
	}
}

// A network is loaded once for all games and players.
func TestMatchModels(t *testing.T) {
	status, out, stderr := evald(t, "", "match", "policy:model=seeded-2x16", "mcts:model=seeded-2x16,visits=3", "--games", "4", "--rules", "5x4x4")
	if status != exitOK || strings.Count(stderr, "not trained") != 1 || !strings.Contains(out, "mcts:model=seeded-2x16,visits=3") || strings.Contains(out, "forfeited") {
		t.Errorf("status %d, %s, errors %q", status, out, stderr)
	}
}

// DuckDB and pandas can read the games.
func TestMatchPeers(t *testing.T) {
	python := gametest.Python(t, "duckdb", "pandas")
	path := filepath.Join(t.TempDir(), "games.parquet")
	must(t, "", "match", "policy", "random", "--games", "2", "-o", path)
	byProgram(t, "read_match.txt", python, "testdata/read_match.py", path)
}
