package learn

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/evald/evald/engine/durable"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/heuristic"
	"github.com/evald/evald/engine/record"
	"github.com/evald/evald/engine/selfplay"
)

// A generation's games are one series. A continuous run may add further series (continuous.go), each with its own folders: games-001 beside
// games, and labels-001 beside labels.

// seriesFolder returns a path in the folder of a series; kind is games or labels.
func (r *Run) seriesFolder(generation int, kind string, series int, names ...string) string {
	if series > 0 {
		kind = fmt.Sprintf("%s-%03d", kind, series)
	}
	return r.folder(generation, append([]string{kind}, names...)...)
}

// series returns the number of series of games that have begun in a generation, but at least 1.
func (r *Run) series(generation int) int {
	if generation < len(r.generations) {
		return max(1, r.generations[generation].Series)
	}
	n := 1
	for r.hasSeries(generation, n) {
		n++
	}
	return n
}

// plan is which generation's games to play, and their player.
type plan struct {
	generation int
	player     int // the generation of a network, or beginning
}

// plan returns the plan for a generation's games. In a continuous run, the player is the network that has begun them; otherwise it is the
// best network.
func (r *Run) plan(generation int) (p plan, err error) {
	p = plan{generation, r.best()}
	if !r.Config.Continuous {
		return p, nil
	}
	path := r.configOf(generation, 0)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return p, nil
	}
	var c selfplay.Config
	if err == nil {
		err = durable.Unmarshal(text, &c)
	}
	if err != nil {
		return p, fmt.Errorf("%s: %w: correct it and leave crc32 out, or remove the generation's folder, and its games are played again", path, err)
	}
	for ; p.player > beginning; p.player-- {
		if r.generations[p.player].Promoted && name(p.player) == c.Network {
			return p, nil
		}
	}
	if c.Network != r.playerName(beginning) {
		return p, fmt.Errorf("%s: the run has not promoted network %q: remove the generation's folder, and its games are played again", path, c.Network)
	}
	return p, nil
}

// configOf returns the path of the file that exists once a series of games has begun.
func (r *Run) configOf(generation, series int) string {
	return r.seriesFolder(generation, "games", series, r.sub(r.boards[0]), selfplay.ConfigFile)
}

// isHeuristic reports whether a player is the bitsquares heuristic: the player of runs that began without a network.
func (r *Run) isHeuristic(player int) bool { return player == beginning && r.Config.Init == "" }

func (r *Run) playerName(player int) string {
	if r.isHeuristic(player) {
		return eval.Bitsquares.String()
	}
	return name(player)
}

// play plays the missing games: those of the first series and of all others that have begun, and then further series while more (if not
// nil) returns true. It reads nothing that changes while a network is trained.
func (r *Run) play(ctx context.Context, p plan, more func() bool) error {
	e, done := (*eval.Evaluator)(nil), func() {}
	if r.player == nil {
		var err error
		if e, done, err = r.evaluator(p.player); err != nil {
			return err
		}
	}
	defer done()
	for series := 0; series == 0 || r.hasSeries(p.generation, series) || more != nil && series < mostSeries && more(); series++ {
		for i, games := range r.share(r.at(p.generation).seriesGames(p.generation, series)) {
			if err := r.playBatch(ctx, p, series, i, games, e); err != nil {
				return err
			}
		}
	}
	return nil
}

// playBatch plays the games of a series on one board, with e or with the run's Player.
func (r *Run) playBatch(ctx context.Context, p plan, series, board, games int, e *eval.Evaluator) error {
	b, by := r.boards[board], r.playerName(p.player)
	batch := selfplay.Batch{
		Generation: r.Config.batchNumber(p.generation, series)*len(r.boards) + board, Config: r.selfPlay(p, series, b),
		Dir: r.seriesFolder(p.generation, "games", series, r.sub(b)), Games: games,
	}
	which := ""
	if series > 0 {
		which = fmt.Sprintf(", series %d", series)
	}
	batch.Report = func(done selfplay.Progress) {
		rate := float64(done.Played) / done.Elapsed.Seconds()
		left := time.Duration(float64(done.All-done.Games) / rate * float64(time.Second))
		brief := fmt.Sprintf("games of %d%s%s: %d of %d, %.1f/s", p.generation, which, r.of(b), done.Games, done.All, rate)
		r.playProgress(brief, fmt.Sprintf("generation %d%s, self-play%s by %s: %d of %d games%s, %.1f/s, %v left", p.generation, which, r.of(b), by, done.Games, done.All, done.Share(batch.Config), rate, left.Round(time.Second)))
	}
	if r.player == nil {
		return selfplay.Run(ctx, selfplay.Remember(e, by, selfplay.Remembered), batch.Config, batch.Dir, batch.Games, batch.Report)
	}
	if !r.isHeuristic(p.player) {
		batch.Network = r.promoted(p.player)
	}
	return r.player(ctx, batch)
}

// selfPlay returns the configuration of the games of a series on one board.
func (r *Run) selfPlay(p plan, series int, b *game.Board) selfplay.Config {
	own := r.at(p.generation).on(b.Rules())
	c := own.SelfPlay
	c.Network, c.Seed = r.playerName(p.player), r.Config.seed(p.generation)+uint64(series)<<32 // never the seed of another generation
	if r.isHeuristic(p.player) {
		c.Visits, c.FastVisits, c.Path = c.Visits*own.FirstFactor, c.FastVisits*own.FirstFactor, ""
	}
	return c
}

// evaluator opens a promoted network, or the network with which the run began, or the heuristic if there is none.
func (r *Run) evaluator(player int) (e *eval.Evaluator, done func(), err error) {
	if r.isHeuristic(player) {
		e, err = heuristic.New(eval.Bitsquares)
		return e, func() {}, err
	}
	return r.evaluators(r.promoted(player), name(player))
}

// recordFiles returns the files with the records of a generation's games on a board.
func (r *Run) recordFiles(generation int, b *game.Board) (files []string, err error) {
	for series := range r.series(generation) {
		some, err := filepath.Glob(r.seriesFolder(generation, "games", series, r.sub(b), "*.parquet"))
		if err != nil {
			return nil, err
		}
		files = append(files, some...)
	}
	return files, nil
}

// proved returns the number of games of a generation that ended because their result was proved.
func (r *Run) proved(generation int) (games int, err error) {
	if r.Config.SelfPlay.Exact == 0 {
		return 0, nil
	}
	var files []string
	for _, b := range r.boards {
		some, err := r.recordFiles(generation, b)
		if err != nil {
			return 0, err
		}
		files = append(files, some...)
	}
	records, err := record.Open(files...)
	if err != nil {
		return 0, err
	}
	defer records.Close()
	for range records.Rows() {
		var rec record.Record
		if err := records.Next(&rec); err != nil {
			return 0, err
		}
		if rec.Source == eval.Solved { // the last record of its game
			games++
		}
	}
	return games, nil
}

// windows returns, by board, the number of latest games on which a generation is trained.
func (r *Run) windows(generation int) []int {
	windows, all := r.share(r.at(generation).Window), make([]int, len(r.boards))
	for n := range generation + 1 {
		for series := range r.series(n) {
			for i, games := range r.share(r.at(n).seriesGames(n, series)) {
				all[i] += games
			}
		}
	}
	for i := range windows {
		windows[i] = max(windows[i], all[i]/2)
	}
	return windows
}

// files returns the files of the latest games on a board on which generation n is trained, and their number of games: at least window, in
// whole files.
func (r *Run) files(n int, b *game.Board, window int) (files []string, games int, err error) {
	kind := "games"
	if r.Config.Labels == Solver {
		kind = "labels"
	}
	for ; n >= 0; n-- {
		for series := r.series(n) - 1; series >= 0 && games < window; series-- {
			some, err := durable.Shards(r.seriesFolder(n, kind, series, r.sub(b)))
			if err != nil {
				return nil, 0, err
			}
			for i := len(some) - 1; i >= 0 && games < window; i-- {
				if some[i].Games() < 1 {
					return nil, 0, fmt.Errorf("%s: its name does not say which games it holds: remove it", some[i].Path)
				}
				files = append(files, some[i].Path)
				games += some[i].Games()
			}
		}
	}
	return files, games, nil
}

// ofHeuristic reports whether the bitsquares heuristic played the games of any of the files, in generations up to g.
func (r *Run) ofHeuristic(g *Generation, files []string) bool {
	for _, played := range append(r.generations[:g.Number:g.Number], *g) {
		for _, file := range files {
			if played.Player == eval.Bitsquares.String() && strings.HasPrefix(file, r.folder(played.Number)) {
				return true
			}
		}
	}
	return false
}
