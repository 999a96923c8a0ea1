package record

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"

	"github.com/evald/evald/engine/durable"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/heuristic"
)

// fullRow is a Record as stored in a file with all columns. Its fields are the columns of the package
// documentation, in the same order.
type fullRow struct {
	row
	Policy []float32 `parquet:"policy,list"`
}

// row has the columns that all files have.
type row struct {
	Rules    string   `parquet:"rules,dict"`
	OwnLo    uint64   `parquet:"own_lo"`
	OwnHi    uint64   `parquet:"own_hi"`
	AllLo    uint64   `parquet:"all_lo"`
	AllHi    uint64   `parquet:"all_hi"`
	Visits   []uint32 `parquet:"visits,list"`
	Q        float32  `parquet:"q"`
	Z        int8     `parquet:"z"`
	GameOver uint8    `parquet:"gameover"`
	Ply      int32    `parquet:"ply"`
	Source   string   `parquet:"source,dict"`
	Network  string   `parquet:"network,dict"`
	Weight   float32  `parquet:"weight"`
	Game     int64    `parquet:"game,delta"`
	Move     uint8    `parquet:"move,dict"`
}

// The columns, by their numbers in a row.
const (
	inRules = iota
	inOwnLo
	inOwnHi
	inAllLo
	inAllHi
	inVisits
	inQ
	inZ
	inGameOver
	inPly
	inSource
	inNetwork
	inWeight
	inGame
	inMove
	inPolicy
)

// The columns of files without policies, and of files with them.
var (
	schema     = parquet.SchemaOf(row{})
	schemaFull = parquet.SchemaOf(fullRow{})
)

// compression is shared by all writers, because creating one takes longer than writing a small file.
var compression = &zstd.Codec{}

const (
	versionKey   = "evald.records"
	version      = "2"
	rowsPerGroup = 1 << 16 // bounds the memory of a Writer
	chunk        = 256     // rows per read or write
)

// Writer writes records to one file. The file gets its name when Close succeeds; until then it has a temporary name in the same folder. A
// Writer takes a few MiB of memory for any number of records. It is not safe for concurrent use.
type Writer struct {
	path     string
	file     *durable.File
	policies bool // the file has the column policy
	encode   func([]fullRow) (int, error)
	finish   func() error
	boards   game.Boards
	rows     []fullRow
	written  int64
	failed   error // an error of the file; after it nothing more is written
}

// Create starts writing a file without the column policy. Close replaces any existing file of that name.
func Create(path string) (*Writer, error) { return CreateIn(durable.OS, path, false) }

// CreateIn is Create in any file system, with the column policy if policies is set.
func CreateIn(files durable.FS, path string, policies bool) (*Writer, error) {
	file, err := durable.CreateIn(files, path)
	if err != nil {
		return nil, fmt.Errorf("records %s: %w", path, err)
	}
	w := &Writer{path: path, file: file, policies: policies, rows: make([]fullRow, 0, chunk)}
	options := []parquet.WriterOption{
		parquet.Compression(compression), parquet.MaxRowsPerRowGroup(rowsPerGroup), parquet.CreatedBy("evald", "", ""),
		parquet.KeyValueMetadata(versionKey, version), parquet.KeyValueMetadata(durable.ParquetKey, durable.ParquetZeros),
	}
	if policies {
		full := parquet.NewGenericWriter[fullRow](file, append(options, schemaFull)...)
		w.encode, w.finish = full.Write, full.Close
		return w, nil
	}
	plain, some := parquet.NewGenericWriter[row](file, append(options, schema)...), make([]row, 0, chunk)
	w.finish = plain.Close
	w.encode = func(rows []fullRow) (int, error) {
		some = some[:0]
		for i := range rows {
			some = append(some, rows[i].row)
		}
		return plain.Write(some)
	}
	return w, nil
}

// Write adds a record, and does not retain it. If Reader would reject a value of the record, the error is a *ColumnError, and the record is
// not written. Any other error is an error of the file.
func (w *Writer) Write(r *Record) error {
	if w.failed != nil {
		return w.failed
	}
	err := r.Check(&w.boards)
	if err == nil && !w.policies && len(r.Policy) > 0 {
		err = &ColumnError{"policy", r.Policy, "but the file was begun without this column"}
	}
	if err != nil {
		return fmt.Errorf("record %d: %w", w.written, err)
	}
	w.rows = w.rows[:len(w.rows)+1]
	last := &w.rows[len(w.rows)-1]
	visits, policy := append(last.Visits[:0], r.Visits...), append(last.Policy[:0], r.Policy...)
	*last = fullRow{Policy: policy, row: row{
		Rules: r.Rules.String(), OwnLo: r.Position.Own.Lo, OwnHi: r.Position.Own.Hi, AllLo: r.Position.All.Lo, AllHi: r.Position.All.Hi,
		Visits: visits, Q: r.Q, Z: r.Z, GameOver: r.GameOver, Ply: int32(r.Ply), Source: r.Source.String(), Network: r.Network, Weight: r.Weight,
		Game: r.Game, Move: r.Move,
	}}
	w.written++
	if len(w.rows) == cap(w.rows) {
		return w.flush()
	}
	return nil
}

func (w *Writer) flush() error {
	if _, err := w.encode(w.rows); err != nil {
		w.failed = fmt.Errorf("records %s: %w", w.path, err)
	}
	w.rows = w.rows[:0]
	return w.failed
}

// Close completes the file and gives it its name. After an error the file does not exist.
func (w *Writer) Close() error {
	if w.failed == nil {
		_ = w.flush() // the error is in w.failed
	}
	err := errors.Join(w.failed, w.finish())
	if err == nil {
		err = w.file.SealParquet()
	}
	if err != nil {
		w.Abort()
		return cmp.Or(w.failed, fmt.Errorf("records %s: %w", w.path, err))
	}
	if err := w.file.Commit(); err != nil {
		return fmt.Errorf("records %s: %w", w.path, err)
	}
	return nil
}

// Abort removes the file with all its records. After Close it does nothing.
func (w *Writer) Abort() { w.file.Abort() }

// set copies the values of a row. Each value contains the number of its column in the file; fields maps that number to the field of the
// row. A string that has not changed is not copied.
func (w *fullRow) set(values parquet.Row, fields []int) {
	w.Visits, w.Policy = w.Visits[:0], w.Policy[:0]
	for _, v := range values {
		switch fields[v.Column()] {
		case inRules:
			keep(&w.Rules, v.ByteArray())
		case inOwnLo:
			w.OwnLo = v.Uint64()
		case inOwnHi:
			w.OwnHi = v.Uint64()
		case inAllLo:
			w.AllLo = v.Uint64()
		case inAllHi:
			w.AllHi = v.Uint64()
		case inVisits:
			if !v.IsNull() { // an empty list is one null
				w.Visits = append(w.Visits, v.Uint32())
			}
		case inQ:
			w.Q = v.Float()
		case inZ:
			w.Z = int8(v.Int32())
		case inGameOver:
			w.GameOver = uint8(v.Uint32())
		case inPly:
			w.Ply = v.Int32()
		case inSource:
			keep(&w.Source, v.ByteArray())
		case inNetwork:
			keep(&w.Network, v.ByteArray())
		case inWeight:
			w.Weight = v.Float()
		case inGame:
			w.Game = v.Int64()
		case inMove:
			w.Move = uint8(v.Uint32())
		case inPolicy:
			if !v.IsNull() {
				w.Policy = append(w.Policy, v.Float())
			}
		}
	}
}

// keep sets a string. If the string is already the same, it allocates nothing.
func keep(s *string, to []byte) {
	if *s != string(to) {
		*s = string(to)
	}
}

// read converts a row to a record and checks it. It reuses the memory of r.
func (w *fullRow) read(r *Record, boards *game.Boards) error {
	board, err := boards.Parse(w.Rules)
	if err != nil {
		return &ColumnError{"rules", w.Rules, err.Error()}
	}
	source, ok := heuristic.ParseSource(w.Source)
	if !ok {
		return &ColumnError{"source", w.Source, "which is unknown"}
	}
	*r = Record{
		Rules: board.Rules(), Position: game.Position{Own: game.Bits{Lo: w.OwnLo, Hi: w.OwnHi}, All: game.Bits{Lo: w.AllLo, Hi: w.AllHi}},
		Visits: append(r.Visits[:0], w.Visits...), Q: w.Q, Z: w.Z, GameOver: w.GameOver, Ply: int(w.Ply),
		Source: source, Network: w.Network, Weight: w.Weight, Game: w.Game, Move: w.Move,
		Policy: append(r.Policy[:0], w.Policy...),
	}
	return r.Check(boards)
}
