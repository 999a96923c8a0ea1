package prove

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"os"

	"github.com/evald/evald/engine/durable"
	"github.com/evald/evald/engine/game"
)

// row is a position of a board of at most 64 bits. Files contain rows in ascending order, 16 bytes each: all, then own.
type row struct{ all, own uint64 }

const rowBytes = 16

func rowOf(p game.Position) row { return row{p.All.Lo, p.Own.Lo} }

func (r row) position() game.Position {
	return game.Position{Own: game.Bits{Lo: r.own}, All: game.Bits{Lo: r.all}}
}

func (r row) compare(o row) int {
	switch {
	case r.all < o.all || r.all == o.all && r.own < o.own:
		return -1
	case r == o:
		return 0
	}
	return 1
}

func (r row) appendTo(b []byte) []byte {
	return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(b, r.all), r.own)
}

func rowAt(b []byte) row {
	return row{binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])}
}

// writer writes a file of rows, which ends with the CRC-32 (IEEE) of all rows.
type writer struct {
	*bufio.Writer
	file io.Writer
	sum  hash.Hash32

	commit func() error
	abort  func() // does nothing after the commit
}

// create begins a file that gets its name once it is complete.
func create(path string) (*writer, error) {
	f, err := durable.Create(path)
	if err != nil {
		return nil, err
	}
	return newWriter(f, f.Commit, f.Abort), nil
}

// createRun begins a temporary file that only this process reads.
func createRun(path string) (*writer, error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	return newWriter(f, f.Close, func() { f.Close() }), nil
}

func newWriter(f io.Writer, commit func() error, abort func()) *writer {
	sum := crc32.NewIEEE()
	return &writer{bufio.NewWriterSize(io.MultiWriter(f, sum), fileBuffer), f, sum, commit, abort}
}

// fileBuffer is the size of reads and writes in bytes.
const fileBuffer = 1 << 16

// close completes the file. After an error the file does not exist.
func (w *writer) close() error {
	err := w.Flush()
	if err == nil {
		_, err = w.file.Write(binary.LittleEndian.AppendUint32(nil, w.sum.Sum32()))
	}
	if err != nil {
		w.abort()
		return err
	}
	return w.commit()
}

// reader reads a file of rows, each of which has width bytes.
type reader struct {
	*os.File
	in    *bufio.Reader
	width int
	left  int64 // number of unread rows
}

// open opens a file and compares its checksum.
func open(path string, width int) (*reader, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	r := &reader{File: f, width: width}
	if err := r.check(); err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w: remove its folder, and start again", path, err)
	}
	return r, nil
}

func (r *reader) check() error {
	info, err := r.Stat()
	if err != nil {
		return err
	}
	size := info.Size() - crc32.Size
	if r.left = size / int64(r.width); size < 0 || size%int64(r.width) != 0 {
		return errors.New("is damaged: it has no whole number of rows")
	}
	sum, want := crc32.NewIEEE(), make([]byte, crc32.Size)
	if _, err := io.CopyN(sum, r, size); err != nil {
		return err
	}
	if _, err := io.ReadFull(r, want); err != nil {
		return err
	}
	if sum.Sum32() != binary.LittleEndian.Uint32(want) {
		return errors.New("is damaged: its checksum does not match")
	}
	_, err = r.Seek(0, io.SeekStart)
	r.in = bufio.NewReaderSize(r, fileBuffer)
	return err
}

// next reads the next rows, at most as many as fit into buf. It returns none after the last.
func (r *reader) next(buf []byte) ([]byte, error) {
	n := min(r.left, int64(len(buf)/r.width))
	buf = buf[:n*int64(r.width)]
	r.left -= n
	_, err := io.ReadFull(r.in, buf)
	return buf, err
}
