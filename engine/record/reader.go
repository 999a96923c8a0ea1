package record

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	"github.com/evald/evald/engine/durable"
	"github.com/evald/evald/engine/game"
)

// Reader reads the records of several files in order, as one stream whose rows are numbered from 0. Its memory does not grow with the
// files. It is not safe for concurrent use.
type Reader struct {
	files  durable.FS
	paths  []string
	sealed bool    // all files have checksums
	counts []int64 // rows of each file
	total  int64
	boards game.Boards

	open   *shard // the file being read, or nil
	file   int    // index of the open file, or of the next file to open
	group  int    // next row group of the open file
	left   int64  // unread rows of the current group
	reader parquet.Rows
	buffer [chunk]parquet.Row
	ahead  []parquet.Row // rows in the buffer that are not yet returned
	row    fullRow       // the row returned last
	at     int64         // the next row of the open file
	err    error         // an error of the file; only SeekRow clears it
}

// Open opens each file once, compares its checksum and counts its rows. The error names the file that is damaged or has no records.
func Open(paths ...string) (*Reader, error) { return OpenIn(durable.OS, paths...) }

// OpenIn is Open in any file system; nil is the operating system's.
func OpenIn(files durable.FS, paths ...string) (*Reader, error) {
	if files == nil {
		files = durable.OS
	}
	r := &Reader{files: files, paths: paths, sealed: true}
	for _, path := range paths {
		f, err := openShard(files, path, true)
		if err != nil {
			return nil, fmt.Errorf("records %s: %w", path, err)
		}
		f.Close()
		r.sealed = r.sealed && f.sealed
		r.counts = append(r.counts, f.rows)
		r.total += f.rows
	}
	return r, nil
}

// Sealed reports whether all files have checksums, as files of evald do.
func (r *Reader) Sealed() bool { return r.sealed }

// Rows is the number of records in all files.
func (r *Reader) Rows() int64 { return r.total }

// Next reads the next record into rec, and reuses rec's memory. After the last record the error is io.EOF. Other errors name the file and
// the row in it, counted from 0 as in pandas and DuckDB's file_row_number. If a value is invalid, the error is a *ColumnError, and the next
// call reads the next record. After any other error, the next call fails again.
func (r *Reader) Next(rec *Record) error {
	for len(r.ahead) == 0 {
		if r.err == nil {
			r.err = r.fill()
		}
		if r.err != nil {
			return r.err
		}
	}
	r.row.set(r.ahead[0], r.open.fields)
	r.ahead = r.ahead[1:]
	r.at++
	if err := r.row.read(rec, &r.boards); err != nil {
		return fmt.Errorf("%s: %w", r.Where(), err)
	}
	return nil
}

// Where returns the file and row of the last record from Next, for errors about that record.
func (r *Reader) Where() string { return fmt.Sprintf("records %s: row %d", r.paths[r.file], r.at-1) }

// SeekRow makes row n, from 0 to Rows, the next one. It reads only from that row's group on.
func (r *Reader) SeekRow(n int64) error {
	if n < 0 || n > r.total {
		return fmt.Errorf("records: no row %d: there are %d", n, r.total)
	}
	r.err = r.Close()
	r.file = 0
	for r.file < len(r.paths) && n >= r.counts[r.file] {
		n -= r.counts[r.file]
		r.file++
	}
	if r.file == len(r.paths) || r.err != nil {
		return r.err
	}
	r.err = r.within(func() error { return r.seekInFile(n) })
	return r.err
}

func (r *Reader) seekInFile(n int64) error {
	if err := r.openNext(); err != nil {
		return err
	}
	for n >= r.open.groups[r.group].NumRows() {
		n -= r.open.groups[r.group].NumRows()
		r.at += r.open.groups[r.group].NumRows()
		r.group++
	}
	if err := r.startGroup(); err != nil {
		return err
	}
	for n > 0 {
		if err := r.read(); err != nil {
			return err
		}
		skipped := min(n, int64(len(r.ahead)))
		r.ahead = r.ahead[skipped:]
		r.at += skipped
		n -= skipped
	}
	return nil
}

// read reads at least one row of the current group into the buffer.
func (r *Reader) read() error {
	n, err := r.reader.ReadRows(r.buffer[:min(chunk, r.left)])
	r.ahead = r.buffer[:n]
	r.left -= int64(n)
	switch {
	case n > 0: // the next call returns the error again
		return nil
	case err == nil || errors.Is(err, io.EOF):
		return fmt.Errorf("its row group ends %d rows too early: %w", r.left, errDamaged)
	}
	return err
}

// fill reads a few rows into the buffer, if needed from the next group or file. It may read none and return no error.
func (r *Reader) fill() error {
	if r.open == nil && r.file == len(r.paths) {
		return io.EOF
	}
	return r.within(func() error {
		switch {
		case r.open == nil:
			return r.openNext()
		case r.left > 0:
			return r.read()
		case r.group < len(r.open.groups):
			return r.startGroup()
		}
		if err := r.Close(); err != nil {
			return err
		}
		r.file++
		return nil
	})
}

// within calls do, and adds the file and row to its error. It converts a panic to an error, because the Parquet library trusts some of its
// input.
func (r *Reader) within(do func() error) (err error) {
	path, row := r.paths[r.file], &r.at
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", errDamaged, p)
		}
		if err != nil {
			err = fmt.Errorf("records %s: row %d: %w", path, *row, err)
		}
	}()
	return do()
}

func (r *Reader) openNext() error {
	f, err := openShard(r.files, r.paths[r.file], false)
	if err != nil {
		return err
	}
	if want := r.counts[r.file]; f.rows != want {
		f.Close()
		return fmt.Errorf("has %d rows, and had %d before: it was replaced while it was read", f.rows, want)
	}
	r.open, r.group, r.left, r.at = f, 0, 0, 0
	return nil
}

func (r *Reader) startGroup() error {
	if err := r.open.checkGroup(r.group); err != nil {
		return err
	}
	if r.reader != nil {
		r.reader.Close()
	}
	g := r.open.groups[r.group]
	r.reader = g.Rows()
	r.left = g.NumRows()
	r.group++
	return nil
}

// Close closes the file being read.
func (r *Reader) Close() error {
	if r.open == nil {
		return nil
	}
	if r.reader != nil {
		r.reader.Close()
	}
	err := r.open.Close()
	r.open, r.reader, r.ahead, r.left, r.at = nil, nil, nil, 0, 0
	return err
}

// shard is an open file of records.
type shard struct {
	durable.Handle
	size   int64
	sealed bool // the whole file was read, and it has a checksum
	parsed *parquet.File
	groups []parquet.RowGroup
	rows   int64
	fields []int // field of a row, by column of the file
}

// openShard opens a file and checks that its footer is that of a file of records. If whole is set, it first reads the whole file and
// compares its checksum, if the file has one.
func openShard(files durable.FS, path string, whole bool) (s *shard, err error) {
	if err := regular(files, path); err != nil {
		return nil, err
	}
	f, err := files.OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		return nil, errors.Unwrap(err)
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", errDamaged, p)
		}
		if err != nil {
			f.Close()
		}
	}()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	footer, err := readFooter(f, info.Size())
	if err != nil {
		return nil, err
	}
	sealed := false
	if whole {
		if sealed, err = durable.CheckParquet(f, info.Size()); err != nil {
			return nil, err
		}
	}
	if _, err := decode(footer, new(format.FileMetaData)); err != nil {
		return nil, fmt.Errorf("footer: %w", err)
	}
	file, err := parquet.OpenFile(f, info.Size(), parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return nil, fmt.Errorf("is not a whole Parquet file: %w", err)
	}
	fields, err := checkFooter(file)
	if err != nil {
		return nil, err
	}
	return &shard{f, info.Size(), sealed, file, file.RowGroups(), file.NumRows(), fields}, nil
}

// regular returns an error unless the path is a regular file. It does not open the file, because opening a pipe could block forever. Errors
// do not name the file.
func regular(files durable.FS, path string) error {
	info, err := files.Stat(path)
	if err != nil {
		return errors.Unwrap(err)
	}
	if !info.Mode().IsRegular() {
		return errors.New("is not a regular file")
	}
	return nil
}

// checkGroup checks the pages of a row group. It must be called before the library reads them.
func (s *shard) checkGroup(group int) error {
	columns := s.parsed.Metadata().RowGroups[group].Columns
	for i := range columns {
		m := &columns[i].MetaData
		if err := checkPages(s, s.size, m); err != nil {
			return fmt.Errorf("column %s: %w", strings.Join(m.PathInSchema, "."), err)
		}
	}
	return nil
}

// checkFooter checks the version, the columns and the row groups. It returns, for each column of the file, the field of a row.
func checkFooter(file *parquet.File) (fields []int, err error) {
	switch v, ok := file.Lookup(versionKey); {
	case !ok:
		return nil, fmt.Errorf("is a Parquet file, but not of training records: its metadata has no %s", versionKey)
	case v != version:
		return nil, fmt.Errorf("metadata %s is %.40q, but this evald reads version %s: use the evald that wrote it, or a newer one", versionKey, v, version)
	}
	if fields, err = checkSchema(file.Schema()); err != nil {
		return nil, err
	}
	var rows int64
	for i, g := range file.RowGroups() {
		if g.NumRows() < 0 || g.NumRows() > 1<<40 {
			return nil, fmt.Errorf("row group %d has %d rows: %w", i, g.NumRows(), errDamaged)
		}
		rows += g.NumRows()
	}
	if rows != file.NumRows() {
		return nil, fmt.Errorf("has %d rows, but its row groups have %d: %w", file.NumRows(), rows, errDamaged)
	}
	return fields, nil
}

// checkSchema compares the columns one by one, so that an error can name the wrong one. It returns, for each column of the file, the field
// of a row.
func checkSchema(got *parquet.Schema) (fields []int, err error) {
	columns := schemaFull.Columns()
	have, want := map[string]parquet.Field{}, map[string]parquet.Field{}
	for _, f := range got.Fields() {
		have[f.Name()] = f
	}
	for _, f := range schemaFull.Fields() {
		want[f.Name()] = f
	}
	fields = make([]int, len(columns))
	for i, path := range columns {
		name := path[0]
		f, ok := have[name]
		switch {
		case !ok && i == inPolicy:
			continue
		case !ok:
			return nil, fmt.Errorf("column %s is missing", name)
		}
		if !parquet.EqualNodes(f, want[name]) {
			return nil, fmt.Errorf("column %s is %v, want %v", name, f, want[name])
		}
		delete(have, name)
		leaf, _ := got.Lookup(path...) // found, because the nodes are equal
		fields[leaf.ColumnIndex] = i
	}
	for name := range have {
		return nil, fmt.Errorf("column %s is unknown", name)
	}
	return fields, nil
}
