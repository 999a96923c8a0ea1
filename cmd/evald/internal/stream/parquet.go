package stream

import (
	"io"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"
)

// Row is one line of input in Parquet. The columns have the names of the JSON fields. If error is set, only line and
// position are set too.
type Row struct {
	Line     int64     `parquet:"line"`
	Position string    `parquet:"position"`
	ToMove   *int32    `parquet:"to_move,optional"`
	WDL      []float32 `parquet:"wdl,list"`
	Value    *float32  `parquet:"value,optional"`
	Policy   []float32 `parquet:"policy,list"`
	Best     *int32    `parquet:"best,optional"` // from 1; null if the game is over
	Source   *string   `parquet:"source,optional,dict"`
	Model    string    `parquet:"model,dict"`
	Error    *string   `parquet:"error,optional"`
}

// Parquet writes Rows, compressed with zstd.
type Parquet struct {
	w    *parquet.GenericWriter[Row]
	rows []Row
}

// rowsPerGroup bounds the memory that the writer holds.
const rowsPerGroup = 1 << 17

// NewParquet writes a file to w; it is complete after Close.
func NewParquet(w io.Writer) *Parquet {
	return &Parquet{w: parquet.NewGenericWriter[Row](w,
		parquet.Compression(&zstd.Codec{}), parquet.MaxRowsPerRowGroup(rowsPerGroup), parquet.CreatedBy("evald", "", ""))}
}

// Encode does nothing. Write does the work, because the writer keeps columns that depend on earlier rows.
func (f *Parquet) Encode(*Chunk) {}

// Write adds the chunk's rows.
func (f *Parquet) Write(c *Chunk) error {
	f.rows = f.rows[:0]
	for i := range c.Answers {
		f.rows = append(f.rows, row(&c.Answers[i]))
	}
	_, err := f.w.Write(f.rows)
	return err
}

func row(a *Answer) Row {
	r := Row{Line: int64(a.Number), Position: a.Text}
	if a.Err != nil {
		text := a.Err.Error()
		r.Error = &text
		return r
	}
	mark, value, source := int32(a.State.Mark), a.Value(), a.Source().String()
	r.ToMove, r.Value, r.Source = &mark, &value, &source
	r.WDL, r.Policy, r.Model = a.WDL(), a.Policy(), a.Model()
	if best := int32(a.Best()); best > 0 {
		r.Best = &best
	}
	return r
}

// Close completes the file.
func (f *Parquet) Close(Summary) error { return f.w.Close() }
