package train

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/record"
)

// Records are read in chunks, in a random order that is another in each pass over the files; so many chunks are in
// memory at once and shuffled among each other.
const (
	chunkRows   = 4096
	groupChunks = 16
)

// rows are records by number: a *record.Reader or a *record.SolvedReader.
type rows interface {
	Rows() int64
	SeekRow(n int64) error
	Next(rec *record.Record) error
	Close() error
}

// Records is the examples of record files, shuffled. Each pass has every record once. It is not safe for concurrent
// use.
type Records struct {
	reader  rows
	board   *game.Board
	options RecordOptions
	ends    foretold // where QShare is not 0

	pass     int       // of chunks
	chunks   []int     // in the order of the pass
	group    int       // of examples, -1 for none
	examples []Example // of the group in memory, shuffled
	ignored  int       // of them: answered by heuristics
}

// RecordOptions say what is learned from records.
//
// The policy's target is the shares of visits. That of win, draw and loss is a mixture of the game's outcome z and of what
// the value q of the search's root foretells, which for s = QShare is
//
//	(1-s) * (1, 0, 0 where z = 1; 0, 1, 0 where z = 0; 0, 0, 1 where z = -1)  +  s * foretold(q)
//
// The outcome has no bias, but the noise of one game with all its blunders; the search's value has less noise, and the
// errors of the network that searched. See foretold for how one number becomes three.
type RecordOptions struct {
	Seed       uint64  // of the order
	Heuristics bool    // learn also from records that a heuristic answered, and not a network, a search or a solver
	QShare     float64 // of q in the target of win, draw and loss, 0 to 1
}

// OpenRecords opens files of one game's records. Close it.
func OpenRecords(b *game.Board, o RecordOptions, paths ...string) (*Records, error) {
	if !(o.QShare >= 0 && o.QShare <= 1) {
		return nil, fmt.Errorf("q share is %v, must be 0 to 1", o.QShare)
	}
	reader, err := record.Open(paths...)
	if err != nil {
		return nil, err
	}
	return newRecords(b, o, reader, paths)
}

// OpenSolved opens files of one game's exact scores, lines as `evald solve --scores` writes them. What is learned is the
// result with best play, the moves with the best score, each as likely as the others, and that the game is not over.
// All lines are read once to see that nothing is wrong with them. Close it.
func OpenSolved(b *game.Board, seed uint64, paths ...string) (*Records, error) {
	reader, err := record.OpenSolved(paths...)
	if err != nil {
		return nil, err
	}
	return newRecords(b, RecordOptions{Seed: seed}, reader, paths)
}

func newRecords(b *game.Board, o RecordOptions, reader rows, paths []string) (*Records, error) {
	if reader.Rows() == 0 {
		return nil, errors.Join(fmt.Errorf("records %v: there are none", paths), reader.Close())
	}
	r := &Records{reader: reader, board: b, options: o, pass: -1}
	var err error
	if o.QShare > 0 {
		err = r.calibrate()
	}
	if err == nil {
		_, err = r.example(0, 0) // what is wrong with the first is said now
	}
	if err != nil {
		return nil, errors.Join(err, reader.Close())
	}
	return r, nil
}

// Ignored is how many of the examples in memory count for nothing because heuristics answered them.
func (r *Records) Ignored() (ignored, of int) { return r.ignored, len(r.examples) }

// Rows is the number of records in all files.
func (r *Records) Rows() int64 { return r.reader.Rows() }

// Close closes the files.
func (r *Records) Close() error { return r.reader.Close() }

// Source is the records as batches: step s has the examples from s*len(dst) on, pass after pass.
func (r *Records) Source(step int, dst []Example) error {
	for i := range dst {
		at := int64(step)*int64(len(dst)) + int64(i)
		e, err := r.example(int(at/r.Rows()), at%r.Rows())
		if err != nil {
			return err
		}
		dst[i] = e
	}
	return nil
}

// example is example number at of a pass.
func (r *Records) example(pass int, at int64) (Example, error) {
	if pass != r.pass {
		r.chunks = randomOf(r.options.Seed, forShuffling, pass).Perm(int((r.Rows() + chunkRows - 1) / chunkRows))
		r.pass, r.group = pass, -1
	}
	for group := 0; ; group++ {
		some := r.chunks[group*groupChunks : min((group+1)*groupChunks, len(r.chunks))]
		size := int64(0)
		for _, c := range some {
			size += r.chunkSize(c)
		}
		if at >= size {
			at -= size
			continue
		}
		if group != r.group {
			if err := r.load(some, rand.New(rand.NewPCG(r.options.Seed, uint64(pass)<<32+uint64(group)))); err != nil {
				return Example{}, err
			}
			r.group = group
		}
		return r.examples[at], nil
	}
}

func (r *Records) chunkSize(c int) int64 { return min(chunkRows, r.Rows()-int64(c)*chunkRows) }

// load reads chunks and shuffles their examples.
func (r *Records) load(chunks []int, random *rand.Rand) error {
	r.group, r.examples, r.ignored = -1, r.examples[:0], 0
	use := false
	var rec record.Record
	for _, c := range chunks {
		if err := r.reader.SeekRow(int64(c) * chunkRows); err != nil {
			return err
		}
		for i := range r.chunkSize(c) {
			if err := r.reader.Next(&rec); err != nil {
				return err
			}
			if rec.Rules != r.board.Rules() {
				return fmt.Errorf("records: row %d is of %v, and the run is one of %v: a run learns one game", int64(c)*chunkRows+i, rec.Rules, r.board.Rules())
			}
			e := r.convert(&rec)
			use = use || e.Weight > 0
			if e.Weight == 0 && rec.Weight > 0 {
				r.ignored++
			}
			r.examples = append(r.examples, e)
		}
	}
	if !use {
		return fmt.Errorf("records: of %d none counts: %d were answered by heuristics, the others have weight 0", len(r.examples), r.ignored)
	}
	random.Shuffle(len(r.examples), func(i, j int) { r.examples[i], r.examples[j] = r.examples[j], r.examples[i] })
	return nil
}

// convert makes an example of a record.
func (r *Records) convert(rec *record.Record) Example {
	e := Example{Position: rec.Position, GameOver: int(rec.GameOver), Weight: rec.Weight}
	if !r.options.Heuristics && !learnable(rec.Source) {
		e.Weight = 0
	}
	if s := float32(r.options.QShare); s > 0 {
		for k, p := range r.ends.wdl(rec.Q) {
			e.WDL[k] = s * p
		}
	}
	e.WDL[1-rec.Z] += 1 - float32(r.options.QShare)
	total := 0.0
	for _, v := range rec.Visits {
		total += float64(v)
	}
	if total > 0 {
		e.Policy = make([]float32, len(rec.Visits))
		for a, v := range rec.Visits {
			e.Policy[a] = float32(float64(v) / total)
		}
	}
	return e
}

// learnable reports whether what this source said is worth learning without asking.
func learnable(s eval.Source) bool {
	return s.Network() || s == eval.Terminal || s == eval.Rules || s == eval.Searched || s == eval.Solved
}

// WithRules is a source of which an eighth of each batch, the last examples, are of the rules: records of play hardly ever
// show a finished game, nor one that the next stone wins. Half of them are RulePositions, of which those that are not
// finished teach the gameover head alone, and half DecidedPositions.
func WithRules(s Source, b *game.Board, seed uint64) Source {
	rule, decided := RulePositions(b, seed), DecidedPositions(b, seed)
	return func(step int, dst []Example) error {
		share := len(dst) / 16
		records, rules := len(dst)-2*share, len(dst)-share
		return errors.Join(s(step, dst[:records]), rule(step, dst[records:rules]), decided(step, dst[rules:]))
	}
}
