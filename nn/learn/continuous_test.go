package learn_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/evald/evald/engine/durable"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/heuristic"
	"github.com/evald/evald/engine/record/recordtest"
	"github.com/evald/evald/engine/selfplay"
	"github.com/evald/evald/nn/learn"
	"github.com/evald/evald/nn/net"
)

// numbers is how many numbers of batches a generation of a continuous run has for each board.
const numbers = 1000

// players plays the batches of a run on this process, as workers do, for all programs that continue the run.
type players struct {
	t     *testing.T
	fail  func(number int) error // nil, or called before a batch
	quiet bool                   // reports nothing

	mu     sync.Mutex
	batch  map[int]selfplay.Batch // by number
	games  map[int]int            // played
	ended  map[int]chan struct{}  // closed when a batch was played
	called []int                  // numbers, since the last program began
	now    int                    // calls at once
}

func newPlayers(t *testing.T) *players {
	return &players{t: t, batch: map[int]selfplay.Batch{}, games: map[int]int{}, ended: map[int]chan struct{}{}}
}

// end is closed when a batch is complete.
func (p *players) end(number int) chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended[number] == nil {
		p.ended[number] = make(chan struct{})
	}
	return p.ended[number]
}

// wait waits until a batch is complete.
func (p *players) wait(number int) {
	ctx, cancel := context.WithTimeout(p.t.Context(), 5*time.Minute)
	defer cancel()
	select {
	case <-p.end(number):
	case <-ctx.Done():
		p.t.Errorf("batch %d is not played", number)
	}
}

func (p *players) play(ctx context.Context, b selfplay.Batch) error {
	p.mu.Lock()
	if n := len(p.called); p.now > 0 || n > 0 && p.called[n-1] >= b.Generation {
		p.t.Errorf("batch %d comes after %v, while %d are played", b.Generation, p.called, p.now)
	}
	p.called, p.batch[b.Generation] = append(p.called, b.Generation), b
	p.now++
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.now--
	}()
	if p.fail != nil {
		if err := p.fail(b.Generation); err != nil {
			return err
		}
	}
	e, done, err := (*eval.Evaluator)(nil), func() {}, error(nil)
	if b.Network == "" {
		e, err = heuristic.New(eval.Bitsquares)
	} else {
		e, done, err = onCPU(b.Network, b.Config.Network)
	}
	if err != nil {
		return err
	}
	defer done()
	err = selfplay.Run(ctx, selfplay.Remember(e, b.Config.Network, selfplay.Remembered), b.Config, b.Dir, b.Games, func(s selfplay.Progress) {
		p.mu.Lock()
		p.games[b.Generation]++
		p.mu.Unlock()
		if !p.quiet {
			b.Report(s)
		}
	})
	if end := p.end(b.Generation); err == nil {
		select {
		case <-end: // in an earlier program
		default:
			close(end)
		}
	}
	return err
}

// learn is a program of a continuous run. measuring, unless it is nil, is called before a network is measured.
func (p *players) learn(ctx context.Context, dir string, c learn.Config, generations int, measuring, progress func(string)) error {
	p.mu.Lock()
	p.called = nil
	p.mu.Unlock()
	c.Generations = generations
	run, err := learn.Open(dir, c, func(file, name string) (*eval.Evaluator, func(), error) {
		if measuring != nil && strings.Contains(file, "train") {
			measuring(name)
		}
		return onCPU(file, name)
	}, onGorgonia, progress)
	if err != nil {
		return err
	}
	defer run.Close()
	run.PlayBy(p.play)
	return run.Learn(ctx, nil)
}

// check compares the files of a run with the batches that were played.
func (p *players) check(dir string, c learn.Config, boards []string) {
	t := p.t
	t.Helper()
	all := generations(t, dir)
	left := len(p.batch)
	rows := 0
	for n, g := range all {
		player := "bitsquares"
		if c.Init != "" {
			player = "init"
		}
		for i, earlier := range all[:max(0, n-1)] {
			if earlier.Promoted {
				player = fmt.Sprintf("%03d", i)
			}
		}
		if g.Player != player || g.Series < 1 {
			t.Errorf("generation %d has %d series of games by %s, want %s", n, g.Series, g.Player, player)
		}
		games := 0
		for s := range g.Series {
			for i, board := range boards {
				number := (n*numbers+s)*len(boards) + i
				b, ok := p.batch[number]
				folder := "games"
				if s > 0 {
					folder = fmt.Sprintf("games-%03d", s)
				}
				folder = filepath.Join(dir, fmt.Sprintf("%03d", n), folder, board)
				if !ok || b.Dir != folder || p.games[number] != b.Games {
					t.Errorf("batch %d, %t, of %d games in %s, want %s: %d games were played", number, ok, b.Games, b.Dir, folder, p.games[number])
				}
				left--
				had := 0
				for _, shard := range gametest.Must(durable.Shards(folder))(t) {
					had += shard.Games()
					for _, r := range recordtest.Read(t, shard.Path) {
						rows++
						if r.Network != player {
							t.Fatalf("%s has a record by %s, want %s", shard.Path, r.Network, player)
						}
					}
				}
				if had != b.Games {
					t.Errorf("%s has %d games of %d", folder, had, b.Games)
				}
				games += had
			}
		}
		if g.Games != games {
			t.Errorf("generation %d has %d games, its files %d", n, g.Games, games)
		}
		if c.Window == math.MaxInt32/4 && c.Labels == learn.Outcome && c.Init == "" && g.Records != int64(rows) {
			t.Errorf("generation %d learned from %d records of %d", n, g.Records, rows)
		}
	}
	if left != 0 {
		t.Errorf("%d batches are of no generation", left)
	}
}

// While a network is trained or measured, the games of the next generation are played: all of them, and further series. The test holds
// the training of generation 0 and the measures of generations 1 and 2 until further series are complete, so it ends only if the play
// does not wait for them. One run has several games and learns from exact scores, and one begins with a network: each day has one of the three.
func TestContinuous(t *testing.T) {
	for i, name := range []string{"one game", "several games", "begun with a network"} {
		if !gametest.Today(t, i, 3) {
			continue
		}
		boards := []string{""}
		if name == "several games" {
			boards = []string{"3x3x3free", "4x4x3"}
		}
		t.Run(name, func(t *testing.T) {
			c := tiny(t)
			c.Window = math.MaxInt32 / 4
			switch {
			case len(boards) > 1:
				c = tinyMix(t)
				c.Labels = learn.Solver
			case name != "one game":
				gametest.OK(t, c.BeginWith(random(t, net.Config{Blocks: 1, Channels: 8, HeadChannels: 4, Hidden: 8})))
			}
			c.Continuous = true
			p, dir := newPlayers(t), t.TempDir()
			p.quiet = true // because the progress of the training stops below
			last := func(generation, series int) int {
				return (generation*numbers+series)*len(boards) + len(boards) - 1
			}
			const count = 4
			gametest.OK(t, p.learn(t.Context(), dir, c, count, func(network string) {
				switch network {
				case "001":
					p.wait(last(2, 1))
				case "002":
					p.wait(last(3, 2))
				}
			}, func(text string) {
				if strings.HasPrefix(text, "generation 0, training") {
					p.wait(last(1, 2))
				}
			}))
			p.check(dir, c, boards)
			all := generations(t, dir)
			for n, least := range []int{1, 3, 2, 3} {
				if all[n].Series < least {
					t.Errorf("generation %d has %d series, want %d or more", n, all[n].Series, least)
				}
			}
			if all[0].Series != 1 || all[2].Player != "000" && c.Init == "" {
				t.Errorf("the first generation has %d series; %s played the third", all[0].Series, all[2].Player)
			}
			seeds := map[uint64]bool{}
			for _, b := range p.batch {
				seeds[b.Config.Seed] = true
			}
			if len(seeds)*len(boards) != len(p.batch) {
				t.Errorf("%d seeds of %d batches", len(seeds), len(p.batch))
			}
			// The steps are those of the first series' games.
			if most := all[1].Steps * 2; all[3].Steps > most {
				t.Errorf("%d steps of %d games, and %d of %d", all[1].Steps, all[1].Games, all[3].Steps, all[3].Games)
			}
		})
	}
}

// A continuous run that is interrupted again and again, in all its parts, plays each game once and loses none. Each day has a run of one game
// or of several.
func TestContinuousInterrupted(t *testing.T) {
	for i, boards := range [][]string{{""}, {"3x3x3free", "4x4x3"}} {
		if !gametest.Today(t, i, 2) {
			continue
		}
		t.Run(fmt.Sprintf("games=%d", len(boards)), func(t *testing.T) {
			c := tiny(t)
			if len(boards) > 1 {
				c = tinyMix(t)
				c.Labels = learn.Solver
			}
			c.Continuous, c.Elo0, c.Elo1 = true, -800, -700 // nearly every network is promoted
			p, dir := newPlayers(t), t.TempDir()
			stops := interrupted(t, func(stops int) int { return 20 + 13*stops }, func(ctx context.Context, progress func(string)) error {
				return p.learn(ctx, dir, c, 3, nil, progress)
			})
			if stops < 5 {
				t.Errorf("only %d interrupts", stops)
			}
			p.check(dir, c, boards)

			// What a kill leaves at the end of a generation, and before its measure, its training and its labels.
			want := kept(t, dir)
			for i, gone := range [][]string{{"generations.jsonl"}, {"002/generation.json"}, {"002/generation.json", "002/gate*"}, {"002/generation.json", "002/train", "002/labels*"}} {
				for _, pattern := range gone {
					for _, path := range gametest.Must(filepath.Glob(filepath.Join(dir, pattern)))(t) {
						gametest.OK(t, os.RemoveAll(path))
					}
				}
				gametest.OK(t, p.learn(t.Context(), dir, c, 3, nil, func(string) {}))
				for name, text := range kept(t, dir) {
					if want[name] != text {
						t.Errorf("case %d: %s is another one", i, name)
					}
				}
			}
			p.check(dir, c, boards)

			// Games that were begun are continued by their player, and not by the best network.
			for _, pattern := range []string{"002/generation.json", "002/games*/*.parquet", "002/games*/*/*.parquet"} {
				for _, path := range gametest.Must(filepath.Glob(filepath.Join(dir, pattern)))(t) {
					gametest.OK(t, os.Remove(path))
				}
			}
			if c.Labels == learn.Outcome {
				gametest.OK(t, os.RemoveAll(filepath.Join(dir, "002", "train")))
			}
			gametest.OK(t, newPlayers(t).learn(t.Context(), dir, c, 3, nil, func(string) {}))
			for name, text := range kept(t, dir) {
				if want[name] != text {
					t.Errorf("played again: %s is another one", name)
				}
			}

			// If none follow, none were begun: the best network plays them. So does a program without others that play.
			gametest.OK(t, newPlayers(t).learn(t.Context(), dir, c, 4, nil, func(string) {}))
			gametest.OK(t, learnBy(t.Context(), onGorgonia, dir, c, 5, func(string) {}))
			all := generations(t, dir)
			best := func(n int) string { // of those up to n; a network that loses all games of its gate is not promoted
				for ; !all[n].Promoted; n-- {
				}
				return fmt.Sprintf("%03d", n)
			}
			for n, want := range []string{"bitsquares", "bitsquares", "000", best(2), best(3)} {
				if g := all[n]; g.Player != want || n > 2 && g.Series != 1 {
					t.Errorf("generation %d has %d series of games by %s, want %s", n, g.Series, g.Player, want)
				}
			}
		})
	}
}

// An error of the Player ends the run at once, with its message. The run resumes when the Player works again.
func TestContinuousFails(t *testing.T) {
	c, dir := tiny(t), t.TempDir()
	c.Continuous = true
	for _, number := range []int{0, numbers, numbers + 1} {
		p := newPlayers(t)
		p.quiet = true
		failed := make(chan struct{})
		p.fail = func(n int) error {
			if n != number {
				return nil
			}
			close(failed)
			return errors.New("no room")
		}
		reached := false
		err := p.learn(t.Context(), dir, c, 2, func(string) { reached = true }, func(text string) {
			if strings.HasPrefix(text, "generation 0, training") {
				<-failed
			}
		})
		if err == nil || err.Error() != fmt.Sprintf("generation %d: self-play: no room", number/numbers) || reached {
			t.Errorf("batch %d: error %v, measured %t", number, err, reached)
		}
	}
	gametest.OK(t, newPlayers(t).learn(t.Context(), dir, c, 2, nil, func(string) {}))
	config := filepath.Join(dir, "002", "games", selfplay.ConfigFile)
	gametest.OK(t, os.MkdirAll(filepath.Dir(config), 0o755))
	for text, want := range map[string]string{"{": "unexpected end", `{"network": "007"}`: `the run has not promoted network "007"`} {
		gametest.OK(t, os.WriteFile(config, []byte(text), 0o644))
		err := newPlayers(t).learn(t.Context(), dir, c, 3, nil, func(string) {})
		if err == nil || !strings.Contains(err.Error(), config) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %s", text, err, want)
		}
	}
}

// One line of progress has both what is played and what is learned. The games of generation 1 wait for
// the training of generation 0, and its measures for two series of them.
func TestContinuousProgress(t *testing.T) {
	c, p := tiny(t), newPlayers(t)
	c.Continuous = true
	var mu sync.Mutex
	var lines []string
	training := make(chan struct{})
	begun := sync.OnceFunc(func() { close(training) })
	p.fail = func(number int) error {
		if number == numbers {
			<-training
		}
		return nil
	}
	gametest.OK(t, p.learn(t.Context(), t.TempDir(), c, 2, func(network string) {
		if network == "000" {
			p.wait(numbers + 1)
		}
	}, func(text string) {
		mu.Lock()
		defer mu.Unlock()
		if !strings.HasPrefix(text, "positions") {
			lines = append(lines, text)
		}
		if strings.HasPrefix(text, "generation 0, training") {
			begun()
		}
	}))
	has := func(parts ...string) bool {
		return slices.ContainsFunc(lines, func(line string) bool {
			return !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(line, part) })
		})
	}
	if has("games of 0") || !has("generation 0, self-play by bitsquares: 1 of 60 games, ") || !has("games of 1: ", " of 40, ", "/s; generation 0, training by ") || !has("games of 1, series 1: ", " of 10, ", "; generation 0, training") || has("; games") || slices.Contains(lines, "") {
		t.Errorf("lines %q", lines)
	}
	if last := lines[len(lines)-1]; !strings.HasPrefix(last, "generation 1 against random: ") {
		t.Errorf("the last line is %q", last)
	}
}

// A run that is not continuous calls its players with the numbers and seeds of generations alone, and its files do not name what only a continuous run has.
func TestNotContinuous(t *testing.T) {
	c, dir, p := tinyMix(t), t.TempDir(), newPlayers(t)
	gametest.OK(t, p.learn(t.Context(), dir, c, 2, nil, func(string) {}))
	if want := []int{0, 1, 2, 3}; !slices.Equal(p.called, want) {
		t.Errorf("batches %v, want %v", p.called, want)
	}
	for n, b := range p.batch {
		if want := c.Seed*1_000_003 + uint64(n/2); b.Config.Seed != want {
			t.Errorf("batch %d: seed %d, want %d", n, b.Config.Seed, want)
		}
	}
	alone := t.TempDir()
	gametest.OK(t, learnBy(t.Context(), onGorgonia, alone, c, 2, func(string) {}))
	want := kept(t, alone)
	for name, text := range kept(t, dir) {
		if want[name] != text {
			t.Errorf("%s is another one", name)
		}
	}
	for _, name := range []string{"config.json", "000/generation.json", "generations.jsonl"} {
		text := string(gametest.Must(os.ReadFile(filepath.Join(dir, name)))(t))
		if strings.Contains(text, "continuous") || strings.Contains(text, "series") {
			t.Errorf("%s: %s", name, text)
		}
	}
	c.Continuous = true
	if err := p.learn(t.Context(), dir, c, 2, nil, nil); err == nil || !strings.Contains(err.Error(), "the run has continuous false, and now it is true") {
		t.Errorf("error %v", err)
	}
}
