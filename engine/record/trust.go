package record

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/parquet-go/parquet-go/format"
)

// The Parquet library allocates the memory that the footer and the headers of pages ask for before it finds that a file is
// damaged. One wrong bit may cost gigabytes, or the process. So this file looks at footer and headers first, and refuses
// them if they ask for more than the file can hold or any file of records needs. Both are structs of Thrift's compact
// protocol.

const (
	maxFooter     = 16 << 20 // bytes; a row group takes about 3 kB
	maxPageHeader = 8 << 10  // bytes
	maxPage       = 64 << 20 // bytes, uncompressed
	maxPageValues = 4 << 20
)

var errDamaged = errors.New("the file is damaged")

// checkEnvelope looks at the first and last bytes of the file, and at the footer before the last.
func checkEnvelope(f io.ReaderAt, size int64) error {
	const magic, tail = "PAR1", 8
	var head [4]byte
	var end [tail]byte
	if size < int64(len(head)+len(end)) {
		return fmt.Errorf("has %d bytes, too few for Parquet", size)
	}
	if _, err := f.ReadAt(head[:], 0); err != nil {
		return err
	}
	if _, err := f.ReadAt(end[:], size-tail); err != nil {
		return err
	}
	if string(head[:]) != magic || string(end[4:]) != magic {
		return errors.New("is not a whole Parquet file: it must begin and end with PAR1")
	}
	length := int64(binary.LittleEndian.Uint32(end[:]))
	if length > min(maxFooter, size-tail-int64(len(head))) {
		return fmt.Errorf("footer has %d bytes, but the file has %d: %w", length, size, errDamaged)
	}
	footer := make([]byte, length)
	if _, err := f.ReadAt(footer, size-tail-length); err != nil {
		return err
	}
	t := thrift{rest: footer, number: func(int, int64) {}}
	if err := t.structure(0, 0); err != nil {
		return fmt.Errorf("footer: %w", err)
	}
	return nil
}

// checkPages looks at the headers of all pages of a column's chunk. The library reads the pages from the same offset.
func checkPages(f io.ReaderAt, size int64, m *format.ColumnMetaData) error {
	if m.Codec != format.Uncompressed && m.Codec != format.Zstd {
		return fmt.Errorf("is compressed with %v: use zstd", m.Codec)
	}
	at := m.DataPageOffset
	if m.DictionaryPageOffset != 0 {
		at = m.DictionaryPageOffset
	}
	if at < 0 || m.TotalCompressedSize < 0 || m.TotalCompressedSize > size || at > size-m.TotalCompressedSize {
		return fmt.Errorf("has %d bytes at %d in a file of %d: %w", m.TotalCompressedSize, at, size, errDamaged)
	}
	data := at == m.DataPageOffset // a page begins at that offset, as one must
	for end := at + m.TotalCompressedSize; at < end; {
		header := make([]byte, min(maxPageHeader, end-at))
		if _, err := f.ReadAt(header, at); err != nil {
			return err
		}
		page, err := readPageHeader(header)
		if err == nil && page.compressed > end-at-page.header {
			err = fmt.Errorf("has %d bytes, but %d are left: %w", page.compressed, end-at-page.header, errDamaged)
		}
		if err == nil && page.kind == dictionaryPage {
			err = page.checkSum(f, at+page.header)
		}
		if err != nil {
			return fmt.Errorf("page at byte %d: %w", at, err)
		}
		at += page.header + page.compressed
		data = data || at == m.DataPageOffset
	}
	if !data {
		return fmt.Errorf("has no page at byte %d: %w", m.DataPageOffset, errDamaged)
	}
	return nil
}

// pageHeader is the part of a page's header that is looked at.
type pageHeader struct {
	header, compressed int64 // bytes
	kind, crc          int64
}

const dictionaryPage = 2

// readPageHeader reads the header at the beginning of b.
func readPageHeader(b []byte) (p pageHeader, err error) {
	const kind, uncompressed, compressed, crc = 1, 2, 3, 4                                    // fields of PageHeader
	const values, dictionaryValues, valuesV2, rowsV2 = 5<<8 | 1, 7<<8 | 1, 8<<8 | 1, 8<<8 | 3 // and of the headers in it
	t := thrift{rest: b, number: func(field int, n int64) {
		most := int64(maxPage)
		switch field {
		case values, dictionaryValues, valuesV2, rowsV2:
			most = maxPageValues
		case compressed:
			p.compressed = n
		case uncompressed:
		case kind:
			p.kind = n
			return
		case crc:
			p.crc = n
			return
		default:
			return
		}
		if n < 0 || n > most {
			err = fmt.Errorf("header field %#x is %d: %w", field, n, errDamaged)
		}
	}}
	if err := t.structure(0, 0); err != nil {
		return pageHeader{}, err
	}
	p.header = int64(len(b) - len(t.rest))
	return p, err
}

// checkSum compares the checksum of a dictionary page, if it has one. The library compares those of other pages.
func (p pageHeader) checkSum(f io.ReaderAt, at int64) error {
	if p.crc == 0 {
		return nil
	}
	body := make([]byte, p.compressed)
	if _, err := f.ReadAt(body, at); err != nil {
		return err
	}
	if got := crc32.ChecksumIEEE(body); got != uint32(p.crc) {
		return fmt.Errorf("checksum is %#x, want %#x: %w", got, uint32(p.crc), errDamaged)
	}
	return nil
}

// thrift walks over a struct, and keeps nothing of it.
type thrift struct {
	rest   []byte
	number func(field int, n int64) // is called with each whole number; field is parent<<8 | id
}

// Types of the compact protocol.
const (
	thriftTrue, thriftFalse, thriftByte          = 1, 2, 3
	thriftI16, thriftI32, thriftI64              = 4, 5, 6
	thriftDouble, thriftBinary                   = 7, 8
	thriftList, thriftSet, thriftMap, thriftNest = 9, 10, 11, 12
)

const maxDepth = 16

// structure walks over the fields up to the stop byte.
func (t *thrift) structure(parent, depth int) error {
	if depth > maxDepth {
		return errDamaged
	}
	for id := 0; ; {
		b, err := t.byte()
		if err != nil || b == 0 {
			return err
		}
		if delta := int(b >> 4); delta != 0 {
			id += delta
		} else {
			n, err := t.varint()
			if err != nil {
				return err
			}
			id = int(int16(n))
		}
		if kind := b & 15; kind != thriftTrue && kind != thriftFalse { // these two have no value after them
			if err := t.value(kind, parent<<8|id, depth); err != nil {
				return err
			}
		}
	}
}

func (t *thrift) value(kind byte, field, depth int) error {
	switch kind {
	case thriftTrue, thriftFalse, thriftByte: // in a list
		return t.skip(1)
	case thriftI16, thriftI32, thriftI64:
		n, err := t.varint()
		t.number(field, n)
		return err
	case thriftDouble:
		return t.skip(8)
	case thriftBinary:
		n, err := t.length()
		if err != nil {
			return err
		}
		return t.skip(n)
	case thriftList, thriftSet:
		return t.list(field, depth)
	case thriftNest:
		return t.structure(field, depth+1)
	}
	return errDamaged // also for maps, which Parquet does not use
}

func (t *thrift) list(field, depth int) error {
	b, err := t.byte()
	if err != nil || depth > maxDepth {
		return errDamaged
	}
	n := uint64(b >> 4)
	if n == 15 {
		if n, err = t.length(); err != nil {
			return err
		}
	}
	if n > uint64(len(t.rest)) { // every element takes a byte
		return errDamaged
	}
	for range n {
		if err := t.value(b&15, field, depth+1); err != nil {
			return err
		}
	}
	return nil
}

func (t *thrift) byte() (byte, error) {
	if len(t.rest) == 0 {
		return 0, errDamaged
	}
	b := t.rest[0]
	t.rest = t.rest[1:]
	return b, nil
}

func (t *thrift) skip(n uint64) error {
	if n > uint64(len(t.rest)) {
		return errDamaged
	}
	t.rest = t.rest[n:]
	return nil
}

// varint reads a number in zigzag coding.
func (t *thrift) varint() (int64, error) {
	v, n := binary.Varint(t.rest)
	if n <= 0 {
		return 0, errDamaged
	}
	t.rest = t.rest[n:]
	return v, nil
}

func (t *thrift) length() (uint64, error) {
	v, n := binary.Uvarint(t.rest)
	if n <= 0 {
		return 0, errDamaged
	}
	t.rest = t.rest[n:]
	return v, nil
}
