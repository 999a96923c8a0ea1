package train

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/evald/evald/engine/durable"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/record"
	"github.com/evald/evald/engine/score"
)

// Records are read in chunks of chunkRows, in an order that is random in each pass. groupChunks chunks are in memory at once; their
// examples are shuffled together.
const (
	chunkRows   = 4096
	groupChunks = 16
)

// rows reads records by row number. It is a *record.Reader or a *record.SolvedReader.
type rows interface {
	Rows() int64
	SeekRow(n int64) error
	Next(rec *record.Record) error
	Where() string
	Close() error
}

// Records is a source of shuffled examples from files of records. Each pass contains every record once. It is not safe for concurrent use.
type Records struct {
	Survey
	reader  rows
	board   *game.Board
	options RecordOptions
	ends    foretold // set unless QShare is 0

	isOut   []bool   // by row of the files: whether it is held out; nil if none is
	out     bool     // these are the held-out records
	heldOut *Records // the held-out records, or nil
	sizes   []int64  // number of records of this part in each chunk

	pass     int       // pass whose order is in chunks; -1 if none
	chunks   []int     // order of the chunks in the pass
	group    int       // group whose examples are in memory; -1 if none
	examples []Example // shuffled examples of the group
}

// RecordOptions determine the examples.
//
// The policy's target is the record's policy if it has one, and otherwise each move's share of the
// visits. The target of win, draw and loss mixes the outcome z of the game with the prediction of the
// search's root value q. For s = QShare it is
//
//	(1-s) * (1, 0, 0 if z = 1; 0, 1, 0 if z = 0; 0, 0, 1 if z = -1)  +  s * foretold(q)
//
// The game's outcome is unbiased, but it has the noise of a single game with all its blunders. The search's value has less noise, but the
// errors of the network that searched. foretold converts the value to three probabilities. A result that a solver has proved is the target
// for every s.
type RecordOptions struct {
	Seed       uint64     // of the order
	Heuristics bool       // also use records answered by a heuristic, not only those of a network, a search or a solver
	QShare     float64    // weight of q in the target of win, draw and loss, 0 to 1
	Without    score.Set  // positions on which networks are measured; records of these positions are an error
	Files      durable.FS // of the records; nil is the operating system's
	HeldOut    float64    // share of the games that are held out, at least 0 and below 1; the same seed and files hold out the same games
}

// OpenRecords opens files of records of one game, and reads them once to check them. The caller must close the Records.
func OpenRecords(b *game.Board, o RecordOptions, paths ...string) (*Records, error) {
	reader, err := record.OpenIn(o.Files, paths...)
	if err != nil {
		return nil, err
	}
	return newRecords(b, o, reader, paths)
}

// OpenSolved opens files of one game's exact scores, in the format of `evald solve --scores`. The targets are the result with best play,
// equal probabilities for the moves with the best score, and a game that is not over. It reads all lines once to check them. It uses only
// the options Seed, HeldOut and Without. The caller must close the Records.
func OpenSolved(b *game.Board, o RecordOptions, paths ...string) (*Records, error) {
	reader, err := record.OpenSolved(paths...)
	if err != nil {
		return nil, err
	}
	return newRecords(b, RecordOptions{Seed: o.Seed, HeldOut: o.HeldOut, Without: o.Without}, reader, paths)
}

func newRecords(b *game.Board, o RecordOptions, reader rows, paths []string) (*Records, error) {
	r := &Records{reader: reader, board: b, options: o, pass: -1, sizes: make([]int64, (reader.Rows()+chunkRows-1)/chunkRows)}
	if err := r.begin(paths); err != nil {
		return nil, errors.Join(err, reader.Close())
	}
	return r, nil
}

// begin checks the options and all records.
func (r *Records) begin(paths []string) error {
	files := fmt.Sprintf("records %s", paths)
	if len(paths) > 2 {
		files = fmt.Sprintf("records [%s and %d other files]", paths[0], len(paths)-1)
	}
	switch o := r.options; {
	case !(o.QShare >= 0 && o.QShare <= 1):
		return fmt.Errorf("q share is %v, must be 0 to 1", o.QShare)
	case !(o.HeldOut >= 0 && o.HeldOut < 1):
		return fmt.Errorf("share that is held out is %v, must be 0 or more and less than 1", o.HeldOut)
	case r.reader.Rows() == 0:
		return fmt.Errorf("%s: there are none: give other files", files)
	}
	if err := r.survey(); err != nil {
		return err
	}
	all := r.Survey
	if out := r.heldOut; out != nil {
		all.Records, all.Ignored, all.Count = all.Records+out.Survey.Records, all.Ignored+out.Ignored, all.Count+out.Count
	}
	switch {
	case all.Count == 0:
		return fmt.Errorf("%s: of %d none counts: %d were answered by heuristics, the others have weight 0", files, all.Records, all.Ignored)
	case r.heldOut != nil && (r.Count == 0 || r.Count == all.Count):
		return fmt.Errorf("%s: with a share of %v held out, of the %d that count %d are learned from and %d held out: both must have some, so give another share or more games",
			files, r.options.HeldOut, all.Count, r.Count, all.Count-r.Count)
	}
	if r.options.QShare == 0 {
		return nil
	}
	err := r.calibrate()
	if r.heldOut != nil {
		r.heldOut.ends = r.ends
	}
	return err
}

// HeldOut returns the held-out records, or nil. They share files with r, so the two must not be used at the same time. They need not be
// closed.
func (r *Records) HeldOut() *Records { return r.heldOut }

// Rows returns the number of records in a pass.
func (r *Records) Rows() int64 { return r.Survey.Records }

// Close closes the files.
func (r *Records) Close() error { return r.reader.Close() }

// Once is a Source of one pass over the records. Examples after the last record have weight 0.
func (r *Records) Once(step int, dst []Example) (err error) {
	for i := range dst {
		dst[i] = Example{GameOver: -1}
		if at := int64(step)*int64(len(dst)) + int64(i); at < r.Rows() {
			if dst[i], err = r.example(0, at); err != nil {
				return err
			}
		}
	}
	return nil
}

// Source is a Source of batches from pass after pass: step s has the examples from number s*len(dst) on.
func (r *Records) Source(step int, dst []Example) (err error) {
	for i := range dst {
		at := int64(step)*int64(len(dst)) + int64(i)
		if dst[i], err = r.example(int(at/r.Rows()), at%r.Rows()); err != nil {
			return err
		}
	}
	return nil
}

func (r *Records) example(pass int, at int64) (Example, error) {
	if pass != r.pass {
		r.chunks = randomOf(r.options.Seed, forShuffling, pass).Perm(len(r.sizes))
		r.pass, r.group = pass, -1
	}
	for group := 0; ; group++ {
		some := r.chunks[group*groupChunks : min((group+1)*groupChunks, len(r.chunks))]
		size := int64(0)
		for _, c := range some {
			size += r.sizes[c]
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

// load reads chunks into memory and shuffles their examples.
func (r *Records) load(chunks []int, random *rand.Rand) error {
	r.group, r.examples = -1, r.examples[:0]
	for _, c := range chunks {
		err := r.read(c, func(rec *record.Record) { r.examples = append(r.examples, r.convert(rec)) })
		if err != nil {
			return err
		}
	}
	random.Shuffle(len(r.examples), func(i, j int) { r.examples[i], r.examples[j] = r.examples[j], r.examples[i] })
	return nil
}

// read calls visit with those records of a chunk that belong to this part.
func (r *Records) read(c int, visit func(rec *record.Record)) error {
	first := int64(c) * chunkRows
	if err := r.reader.SeekRow(first); err != nil {
		return err
	}
	var rec record.Record
	for row := first; row < min(first+chunkRows, r.reader.Rows()); row++ {
		if err := r.reader.Next(&rec); err != nil {
			return err
		}
		if r.isOut == nil || r.isOut[row] == r.out {
			visit(&rec)
		}
	}
	return nil
}

func (r *Records) convert(rec *record.Record) Example {
	e := Example{Position: rec.Position, GameOver: int(rec.GameOver), Weight: rec.Weight, Solved: rec.Source == eval.Solved}
	if !r.options.Heuristics && !learnable(rec.Source) {
		e.Weight = 0
	}
	s := float32(r.options.QShare)
	if e.Solved {
		s = 0 // the outcome is exact
	}
	if s > 0 {
		for k, p := range r.ends.wdl(rec.Q) {
			e.WDL[k] = s * p
		}
	}
	e.WDL[1-rec.Z] += 1 - s
	total := 0.0
	for _, v := range rec.Visits {
		total += float64(v)
	}
	switch {
	case len(rec.Policy) > 0:
		e.Policy = slices.Clone(rec.Policy)
	case total > 0:
		e.Policy = make([]float32, len(rec.Visits))
		for a, v := range rec.Visits {
			e.Policy[a] = float32(float64(v) / total)
		}
	}
	return e
}

// learnable reports whether records of this source count even without RecordOptions.Heuristics.
func learnable(s eval.Source) bool {
	return s.Network() || s == eval.Terminal || s == eval.Rules || s == eval.Searched || s == eval.Solved
}

// WithRules replaces the last eighth of each batch of s with positions that teach the rules, because records of play hardly ever contain
// finished games or games that the next stone wins. Half of them are RulePositions, which have only a gameover target; half are
// DecidedPositions.
func WithRules(s Source, b *game.Board, seed uint64) Source {
	rule, decided := RulePositions(b, seed), DecidedPositions(b, seed)
	return func(step int, dst []Example) error {
		share := len(dst) / 16
		records, rules := len(dst)-2*share, len(dst)-share
		var made sync.WaitGroup
		var errs [3]error
		made.Go(func() { errs[1] = rule(step, dst[records:rules]) })
		made.Go(func() { errs[2] = decided(step, dst[rules:]) })
		errs[0] = s(step, dst[:records])
		made.Wait()
		return errors.Join(errs[:]...)
	}
}
