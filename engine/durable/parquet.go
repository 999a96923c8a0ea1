package durable

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// A Parquet file contains a checksum of all its bytes: their CRC-32 (IEEE), as eight hexadecimal digits. The file is first written with
// ParquetZeros under ParquetKey in its metadata. SealParquet computes the checksum of that file and replaces the zeros with it. So readers
// detect any wrong byte before they use the file's contents.
const (
	ParquetKey   = "evald.crc32"
	ParquetZeros = "00000000"
)

// The metadata are near the end of the file: a list of pairs of strings, each preceded by its type and length.
var (
	beforeSum = []byte(ParquetKey + "\x18\x08")
	sumWithin = int64(1 << 20) // the checksum is within this many bytes of the end
)

// findSum finds the checksum in a file of size bytes. ok is false if the file has none.
func findSum(f io.ReaderAt, size int64) (at int64, sum string, ok bool, err error) {
	tail := make([]byte, min(size, sumWithin))
	if _, err := f.ReadAt(tail, size-int64(len(tail))); err != nil && !errors.Is(err, io.EOF) {
		return 0, "", false, err
	}
	i := bytes.LastIndex(tail, beforeSum)
	if i += len(beforeSum); i < len(beforeSum) || i+len(ParquetZeros) > len(tail) {
		return 0, "", false, nil
	}
	return size - int64(len(tail)) + int64(i), string(tail[i : i+len(ParquetZeros)]), true, nil
}

// fileSum computes the checksum of a file. The digits at offset at count as zeros.
func fileSum(f io.ReaderAt, size, at int64) (string, error) {
	behind := at + int64(len(ParquetZeros))
	h := crc32.NewIEEE()
	_, err := io.Copy(h, io.MultiReader(io.NewSectionReader(f, 0, at), bytes.NewReader([]byte(ParquetZeros)), io.NewSectionReader(f, behind, size-behind)))
	return fmt.Sprintf("%08x", h.Sum32()), err
}

// SealParquet puts the checksum into a Parquet file that was written with ParquetZeros under ParquetKey.
func (w *File) SealParquet() error {
	info, err := w.Stat()
	if err != nil {
		return err
	}
	at, was, ok, err := findSum(w, info.Size())
	if err != nil {
		return err
	}
	if !ok || was != ParquetZeros {
		return errors.New("the file has no place for its checksum")
	}
	text, err := fileSum(w, info.Size(), at)
	if err != nil {
		return err
	}
	_, err = w.WriteAt([]byte(text), at)
	return err
}

// CheckParquet reads a file of size bytes and compares its checksum. has reports whether the file has a checksum. A file without one was
// written by another program and passes; the caller may reject it.
func CheckParquet(f io.ReaderAt, size int64) (has bool, err error) {
	at, want, has, err := findSum(f, size)
	if err != nil || !has {
		return false, err
	}
	got, err := fileSum(f, size, at)
	if err == nil && got != want {
		err = fmt.Errorf("the file is damaged: its checksum is %s, but it states %s", got, want)
	}
	return true, err
}
