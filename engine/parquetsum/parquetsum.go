// Package parquetsum keeps the checksum of a Parquet file in the file itself. The metadata evald.crc32 is the CRC-32 (IEEE)
// of all bytes of the file, in eight hexadecimal digits; for the sum these digits count as zeros. So a wrong byte is
// noticed, wherever it is, before anything in the file is believed.
package parquetsum

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// A file is written with Zeros under Key in its metadata. Then Seal puts the checksum in their place.
const (
	Key   = "evald.crc32"
	Zeros = "00000000"
)

// The metadata are near the file's end: a list of pairs of strings, each with its type and length before it.
var (
	before = []byte(Key + "\x18\x08")
	within = int64(1 << 20) // bytes of the end
)

// place finds the checksum in the file. ok is false if the file has none.
func place(f io.ReaderAt, size int64) (at int64, sum string, ok bool, err error) {
	tail := make([]byte, min(size, within))
	if _, err := f.ReadAt(tail, size-int64(len(tail))); err != nil && !errors.Is(err, io.EOF) {
		return 0, "", false, err
	}
	i := bytes.LastIndex(tail, before)
	if i += len(before); i < len(before) || i+len(Zeros) > len(tail) {
		return 0, "", false, nil
	}
	return size - int64(len(tail)) + int64(i), string(tail[i : i+len(Zeros)]), true, nil
}

// sum is the checksum of a file in which the digits at a place count as zeros.
func sum(f io.ReaderAt, size, at int64) (string, error) {
	behind := at + int64(len(Zeros))
	h := crc32.NewIEEE()
	_, err := io.Copy(h, io.MultiReader(io.NewSectionReader(f, 0, at), bytes.NewReader([]byte(Zeros)), io.NewSectionReader(f, behind, size-behind)))
	return fmt.Sprintf("%08x", h.Sum32()), err
}

// File is a file that is written and read.
type File interface {
	io.ReaderAt
	io.WriterAt
}

// Seal completes a file of so many bytes that was written with Zeros under Key.
func Seal(f File, size int64) error {
	at, was, ok, err := place(f, size)
	if err != nil {
		return err
	}
	if !ok || was != Zeros {
		return errors.New("the file has no place for its checksum")
	}
	text, err := sum(f, size, at)
	if err != nil {
		return err
	}
	_, err = f.WriteAt([]byte(text), at)
	return err
}

// Check reads a file of so many bytes and compares its checksum. A file without one was written by an older evald or by
// another program; it passes.
func Check(f io.ReaderAt, size int64) error {
	at, want, ok, err := place(f, size)
	if err != nil || !ok {
		return err
	}
	got, err := sum(f, size, at)
	if err == nil && got != want {
		err = fmt.Errorf("the file is damaged: its checksum is %s, and it says %s", got, want)
	}
	return err
}
