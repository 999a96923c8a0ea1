package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/evald/evald/engine/durable"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/sample"
	"github.com/evald/evald/engine/score"
	"github.com/evald/evald/engine/short"
	"github.com/evald/evald/engine/solver"
)

type positionsCmd struct {
	exactBook
	Files []string `arg:"" optional:"" type:"existingfile" help:"With --train: records, such as those of evald selfplay, whose positions are solved instead of drawn ones. The exact results of each file go to a file of the same name."`
	Out   string   `short:"o" required:"" type:"path" placeholder:"DIR" help:"Folder of the files: random.txt, plausible.txt and openings.txt, for evald score. Complete files stay as they are. The same command resumes an interrupted or killed one."`
	Seed  uint64   `default:"7" help:"The same seed, count, rules and kind give the same file, byte for byte."`
	Count int      `range:"1 to 1000000" without:"files" default:"1000" help:"Positions of each kind; fewer if a small board has no more."`
	Rules string   `default:"7x6x4" help:"The game: columns x rows x in-a-row; or several, such as 5x4x4,7x6x4, each in a folder of its own; or any, 48 games for one network to learn; or unseen, ten other games to measure that network."`
	Train bool     `help:"Make records for evald train instead of files for evald score: the result (win, draw or loss) of each move at the --count positions and at those on the way to them, in files KIND-NUMBER.parquet of a thousand games each, rounded up to whole files; or at the positions of FILES."`
	Kinds []string `without:"files" enum:"random,plausible,openings,book" default:"random,plausible,openings" help:"random: all legal moves are equally likely; plausible: a small search with the bitsquares heuristic draws the moves; openings: only the first moves, of either kind at random. With --train also book: all positions of the first plies, whose results ship."`
	Plies string   `placeholder:"FROM-TO" help:"With --train: take all positions with these numbers of stones, such as 10-12, from the drawn games or from FILES. Default: the numbers of the kind, and only some of the positions that take long to solve."`
	Nodes *int     `range:"1 to 2147483647" placeholder:"N" help:"Leave out positions that take the solver more nodes: for the scores of all moves together, or with --train for the result of any one move. This is for large boards, where most positions would take days. The files state how many were left out."`

	Part part `needs:"train" placeholder:"I/N" help:"With --train: make only every Nth file, from file I, I from 0 to N-1. N processes, also on several machines, then share a folder, and make the files that one would."`

	several bool // --rules has several games

	Importance string `needs:"train" placeholder:"NAME|PATH" help:"With --train: evaluate positions with this network first. If it is unsure of the result, the position is solved; if it is sure, only one in ten is, with ten times the weight."`
}

func (c *positionsCmd) Run(ctx context.Context, s streams) error {
	if len(c.Files) > 0 && !c.Train {
		return usage("%s: is taken with --train alone, which makes records", c.Files[0])
	}
	switch {
	case c.Train:
	case c.Plies != "":
		return usage("--plies %s: is taken with --train alone, which makes records", c.Plies)
	case slices.Contains(c.Kinds, bookKind):
		return usage("--kinds %s: is taken with --train alone, which makes records", bookKind)
	}
	mix, boards, err := boardsOf(c.Rules)
	if err != nil {
		return err
	}
	books, err := c.books()
	if err != nil {
		return err
	}
	files, err := filesOf(durable.OS, mix, c.Rules, c.Files, false)
	if err != nil {
		return err
	}
	for i, board := range boards {
		if len(c.Files) > 0 && len(files[i]) == 0 {
			continue
		}
		one := *c
		one.several = len(boards) > 1
		one.Rules, one.Files, one.Out = board.Rules().String(), files[i], folderOf(mix, c.Out, board.Rules())
		if err := one.ofGame(ctx, s, board, books(board.Rules())); err != nil {
			return err
		}
	}
	return nil
}

// ofGame makes the files of one game.
func (c *positionsCmd) ofGame(ctx context.Context, s streams, board *game.Board, known solver.Book) error {
	if c.Part.of > 0 { // files appear whole, and two processes cannot write one, so parts need no lock
		if err := os.MkdirAll(c.Out, 0o755); err != nil {
			return err
		}
		return c.makeRecords(ctx, s, board, known)
	}
	dir, err := durable.OpenDir(c.Out)
	if errors.Is(err, durable.ErrFolderInUse) {
		return fmt.Errorf("%s: another program is making positions in this folder: wait for it, or name another one with -o", c.Out)
	}
	if err != nil {
		return err
	}
	if c.Train {
		return errors.Join(c.makeRecords(ctx, s, board, known), dir.Close())
	}
	return errors.Join(c.makeAll(ctx, s, board, known), dir.Close())
}

// nodes returns --nodes, or 0 if there is no limit.
func (c *positionsCmd) nodes() uint64 {
	if c.Nodes == nil {
		return 0
	}
	return uint64(*c.Nodes)
}

// errTakesMore says that no position of a set could be solved within --nodes.
var errTakesMore = errors.New("takes more")

// makeAll makes the missing files. The caller holds the lock of the folder.
func (c *positionsCmd) makeAll(ctx context.Context, s streams, board *game.Board, known solver.Book) error {
	// Report conflicts with existing files before hours of work.
	var sets []*positionSet
	for _, kind := range c.Kinds {
		set := c.set(board, sample.Kind(kind))
		for _, path := range []string{set.path, set.partial()} {
			text, err := set.lines(path)
			if err != nil {
				return err
			}
			set.kept = max(set.kept, bytes.Count(text, []byte("\n"))-bytes.Count(text, []byte("\n#"))-1)
		}
		sets = append(sets, set)
	}
	progress := newProgress(s.err, 0)
	defer progress.clear()
	for i, set := range sets {
		text, err := set.make(ctx, known, runtime.GOMAXPROCS(0), progress)
		progress.clear()
		if c.several && errors.Is(err, errTakesMore) { // the openings of a large board
			fmt.Fprintf(s.err, "evald positions: there is no file of %v\n", err)
			continue
		}
		err = orInterrupted(ctx, err, s.err, "; %d of %d kinds are complete, of %s %d positions are kept; the same command resumes it", i, len(sets), set.kind, set.kept)
		if err != nil {
			return fmt.Errorf("%s: %w", set.path, err)
		}
		if _, err := fmt.Fprintf(s.out, "%s: %s\n", set.path, text); err != nil {
			return err
		}
	}
	return nil
}

// positionSet describes the file of positions of one kind of play.
type positionSet struct {
	board *game.Board
	kind  sample.Kind
	count int
	seed  uint64
	path  string
	nodes uint64 // maximum of the solver for a position; 0: no limit
	head  string // the file's first line, without its checksum
	kept  int    // number of positions on disk
}

func (c *positionsCmd) set(b *game.Board, k sample.Kind) *positionSet {
	from, to := k.Plies(b)
	bound := ""
	if c.Nodes != nil {
		bound = fmt.Sprintf(" --nodes %d", *c.Nodes)
	}
	return &positionSet{
		board: b, kind: k, count: c.Count, seed: c.Seed, nodes: c.nodes(), path: filepath.Join(c.Out, string(k)+".txt"),
		head: fmt.Sprintf("# %v, %s play, %d to %d plies; evald positions --rules %v --kinds %s --seed %d --count %d%s", b.Rules(), k, from, to, b.Rules(), k, c.Seed, c.Count, bound),
	}
}

// partial returns the path of the journal of an unfinished set. The journal has the set's first line, then JSON lines with checksums, one
// for each solved position in the order of solving. A kill can damage only the last line.
func (p *positionSet) partial() string { return p.path + ".partial" }

// lines reads the complete lines of a file of this set; none if there is no file. A file of another set is an error.
func (p *positionSet) lines(path string) ([]byte, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if behind, ok := bytes.CutPrefix(text, []byte(p.head)); !strings.HasPrefix(p.head, string(text)) && (!ok || behind[0] != '\n' && behind[0] != ';') {
		first, _, _ := strings.Cut(string(text), "\n")
		return nil, fmt.Errorf("%s is another set of positions (%s, and not %q): remove it, or name another folder with -o", path, short.Quote(first), strings.TrimSpace(p.head))
	}
	if path == p.path {
		if err := score.CheckSeal(text); err != nil {
			return nil, fmt.Errorf("%s %w: remove it, and it is made again", path, err)
		}
	}
	return text[:bytes.LastIndexByte(text, '\n')+1], nil
}

// make draws and solves the positions unless the file exists, and returns a message about the result.
func (p *positionSet) make(ctx context.Context, known solver.Book, threads int, progress *progress) (string, error) {
	start := time.Now()
	text, err := p.lines(p.path)
	if err != nil {
		return "", err
	}
	if len(text) > 0 {
		return fmt.Sprintf("%d positions, from before", p.kept), p.forget()
	}
	games, err := sample.Draw(ctx, p.board, p.kind, p.count, p.seed, progress.counting(string(p.kind)+", drawing", 0, p.count))
	if err != nil {
		return "", err
	}
	from, to := p.kind.Plies(p.board)
	if len(games) == 0 {
		return "", fmt.Errorf("%s play of %v has no position of %d to %d plies that is not over: take a larger board, or other --kinds", p.kind, p.board.Rules(), from, to)
	}
	scores, err := p.solve(ctx, games, known, threads, progress)
	if err != nil {
		return "", err
	}
	var lines []byte
	drawn, left := make([]int, to+1), make([]int, to+1) // by stones
	kept := 0
	for i, moves := range games {
		if drawn[len(moves)]++; scores[i] == nil {
			left[len(moves)]++
			continue
		}
		kept++
		lines = score.AppendLine(lines, game.FormatNotation(p.board.Rules(), moves), scores[i])
	}
	if kept == 0 {
		return "", fmt.Errorf("%s play of %v: --nodes %d: each of %d positions %w: give more, or other --kinds", p.kind, p.board.Rules(), p.nodes, len(games), errTakesMore)
	}
	for stones, n := range left {
		if n > 0 {
			lines = fmt.Appendln(lines, score.LeftOut{Stones: stones, Drawn: drawn[stones], Left: n})
		}
	}
	if err := durable.WriteFile(p.path, score.Seal(p.head, lines)); err != nil {
		return "", err
	}
	said := fmt.Sprintf("%d positions of %d to %d plies, in %v", kept, from, to, time.Since(start).Round(time.Millisecond))
	if kept < len(games) {
		said += fmt.Sprintf("; %d others take more than %d nodes", len(games)-kept, p.nodes)
	}
	if len(games) < p.count {
		said += "; the board has no more"
	}
	return said, p.forget()
}

// forget removes the journal.
func (p *positionSet) forget() error {
	err := os.Remove(p.partial())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// solve returns the scores of all positions. It reads scores from the journal, and solves the other positions and adds them to it.
func (p *positionSet) solve(ctx context.Context, games [][]int, known solver.Book, threads int, progress *progress) ([][]int, error) {
	journal, solved, err := p.openJournal()
	if err != nil {
		return nil, err
	}
	defer journal.Close()
	scores := make([][]int, len(games))
	var todo []int // indices of games
	var positions []game.Position
	for i, moves := range games {
		known := false
		if scores[i], known = solved[game.FormatNotation(p.board.Rules(), moves)]; !known {
			todo, positions = append(todo, i), append(positions, p.board.PlayMoves(moves))
		}
	}
	p.kept = len(games) - len(todo)
	show := progress.counting(string(p.kind)+", exact scores", p.kept, len(games))
	_, err = score.Solve(ctx, p.board, positions, score.SolveOptions{Threads: threads, Book: known, Nodes: p.nodes, Solved: func(i int, one score.Position) error {
		i = todo[i]
		scores[i] = one.Scores
		line, err := durable.Marshal(solvedPosition{game.FormatNotation(p.board.Rules(), games[i]), one.Scores})
		if err != nil {
			return err
		}
		if _, err := journal.Write(append(line, '\n')); err != nil {
			return err
		}
		p.kept++
		show(p.kept)
		return nil
	}})
	return scores, err
}

// solvedPosition is a line of the journal, with one score for each action, or none if the position takes too many nodes.
type solvedPosition struct {
	Position string `json:"position"`
	Scores   []int  `json:"scores"`
}

// openJournal opens the journal for appending and returns its scores by position. The caller must close it.
func (p *positionSet) openJournal() (journal *os.File, solved map[string][]int, err error) {
	if journal, err = os.OpenFile(p.partial(), os.O_RDWR|os.O_CREATE, 0o644); err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			journal.Close()
		}
	}()
	text, err := p.lines(p.partial())
	if err != nil {
		return nil, nil, err
	}
	head, behind, _ := bytes.Cut(text, []byte{'\n'})
	lines, err := durable.Lines[solvedPosition](behind, 1)
	plain := fmt.Appendf(nil, "%s\n", head)
	solved = map[string][]int{}
	for _, l := range lines {
		if solved[l.Position] = l.Scores; l.Scores != nil {
			plain = score.AppendLine(plain, l.Position, l.Scores)
		}
	}
	if err == nil {
		_, err = score.Read(bytes.NewReader(plain)) // checks the scores
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w: remove that line, and its position is solved again", p.partial(), err)
	}
	if err := journal.Truncate(int64(len(text))); err != nil {
		return nil, nil, err
	}
	if _, err := journal.Seek(0, io.SeekEnd); err != nil {
		return nil, nil, err
	}
	if len(text) == 0 {
		_, err = journal.WriteString(p.head + "\n")
	}
	return journal, solved, err
}
