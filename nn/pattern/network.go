package pattern

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/evald/evald/engine/durable"
	"github.com/evald/evald/engine/short"
	kernel "github.com/evald/evald/kernels/cpu/pattern"
	"github.com/evald/evald/nn/safetensors"
)

// Network is a network of pattern tables.
type Network struct {
	Weights  kernel.Weights
	Metadata map[string]string // free text
}

// Keys of the metadata. The format is the version of the table's rows and of the tensors.
const (
	kindKey   = "evald.kind"
	formatKey = "evald.format"
	configKey = "evald.config"
	kind      = "pattern"
	inWords   = "1" // the table is int16
	inBytes   = "2" // the table is int8, with a factor for each row
)

var reserved = []string{kindKey, formatKey, configKey, safetensors.SumKey}

// config is the shape of a network.
type config struct {
	Lanes  int    `json:"lanes"`
	Hidden [2]int `json:"hidden"`
}

// maxFile is the maximum size of a file in bytes.
var maxFile = int64(safetensors.Overhead) + int64(RowCount())*(4+2*kernel.MaxLanes) + 1<<20

// RowCount is the number of rows of a table.
func RowCount() int { return int(groups[len(groups)-1]) }

// New returns a network with these weights, and retains them. The error names the invalid part.
func New(w kernel.Weights) (*Network, error) {
	if err := w.Check(groups); err != nil {
		return nil, err
	}
	return &Network{Weights: w, Metadata: map[string]string{}}, nil
}

// String is "pattern128x64x32" for 128 lanes and hidden layers of 64 and 32.
func (n *Network) String() string {
	s := n.Weights.Sizes()
	return fmt.Sprintf("%s%dx%dx%d", kind, n.Weights.Lanes, s[1], s[2])
}

// ParseShape parses the format of String.
func ParseShape(s string) (lanes, h1, h2 int, err error) {
	rest, ok := strings.CutPrefix(s, kind)
	parts := strings.Split(rest, "x")
	if !ok || len(parts) != 3 {
		return 0, 0, 0, fmt.Errorf("shape %s: want lanes and two hidden layers, such as %s128x64x32", short.Quote(s), kind)
	}
	var sizes [3]int
	for i, part := range parts {
		if sizes[i], err = strconv.Atoi(part); err != nil || strconv.Itoa(sizes[i]) != part {
			return 0, 0, 0, fmt.Errorf("shape %s: %s is no number", short.Quote(s), short.Quote(part))
		}
	}
	if err := kernel.CheckShape(sizes[0], sizes[1], sizes[2]); err != nil {
		return 0, 0, 0, fmt.Errorf("shape %s: %w", short.Quote(s), err)
	}
	return sizes[0], sizes[1], sizes[2], nil
}

// IsShape reports whether a text is meant as the shape of a network of pattern tables, valid or not.
func IsShape(s string) bool { return strings.HasPrefix(s, kind) }

// Parameters is the number of weights, including rows that are all 0.
func (n *Network) Parameters() int {
	count := len(n.Weights.Table) + len(n.Weights.Bias)
	for _, l := range n.Weights.Dense {
		count += len(l.Weight) + len(l.Bias)
	}
	return count
}

// Is reports whether a file claims to be a network of pattern tables.
func Is(file []byte) bool {
	metadata, _, err := safetensors.Split(file, "F32", "BF16", "I8", "I16", "I32")
	return err == nil && metadata[kindKey] == kind
}

// Parse reads a network from the bytes of a file. A checksum is optional but must be correct. The error names the invalid tensor
// or field.
func Parse(file []byte) (*Network, error) {
	n, err := parse(file)
	if err != nil {
		return nil, fmt.Errorf("parse pattern network: %w", err)
	}
	return n, nil
}

func parse(file []byte) (*Network, error) {
	metadata, sections, err := safetensors.Split(file, "I8", "I16", "I32")
	if err != nil {
		return nil, err
	}
	if got := metadata[kindKey]; got != kind {
		return nil, fmt.Errorf("metadata %s is %s, want %q", kindKey, short.Quote(got), kind)
	}
	format := metadata[formatKey]
	if format != inWords && format != inBytes {
		return nil, fmt.Errorf("metadata %s is %s, want %q or %q: a newer evald may read it", formatKey, short.Quote(format), inWords, inBytes)
	}
	var c config
	if err := safetensors.DecodeObject(metadata[configKey], &c); err != nil {
		return nil, fmt.Errorf("metadata %s: %w", configKey, err)
	}
	if c.Lanes < 1 || c.Lanes > kernel.MaxLanes || min(c.Hidden[0], c.Hidden[1]) < 1 || max(c.Hidden[0], c.Hidden[1]) > kernel.MaxHidden {
		return nil, fmt.Errorf("metadata %s: %d lanes and hidden layers of %v, want at most %d and %d", configKey, c.Lanes, c.Hidden, kernel.MaxLanes, kernel.MaxHidden)
	}
	byName := map[string]safetensors.Tensor{}
	for _, s := range sections {
		byName[s.Name] = s
	}
	w := kernel.Weights{Lanes: c.Lanes, Table: make([]int16, RowCount()*c.Lanes), Bias: make([]int16, c.Lanes)}
	rows := make([]int32, 0)
	if s, ok := byName["rows"]; ok && len(s.Shape) == 1 && s.Shape[0] <= RowCount() {
		rows = make([]int32, s.Shape[0])
	}
	type part struct {
		name  string
		shape []int
		into  any
	}
	wanted := []part{{"rows", []int{len(rows)}, rows}}
	var words []int16 // the table, from either format
	var small []int8
	var factors []int16
	if format == inWords {
		words = make([]int16, len(rows)*c.Lanes)
		wanted = append(wanted, part{"table", []int{len(rows), c.Lanes}, words})
	} else {
		small, factors = make([]int8, len(rows)*c.Lanes), make([]int16, len(rows))
		wanted = append(wanted, part{"table", []int{len(rows), c.Lanes}, small}, part{"factor", []int{len(rows)}, factors})
	}
	wanted = append(wanted, part{"bias", []int{c.Lanes}, w.Bias})
	sizes := [4]int{(c.Lanes - kernel.Outputs) / 2, c.Hidden[0], c.Hidden[1], kernel.Outputs}
	for i := range w.Dense {
		in, out := max(sizes[i], 0), sizes[i+1]
		w.Dense[i] = kernel.Layer{Weight: make([]int8, in*out), Bias: make([]int32, out)}
		name := fmt.Sprintf("dense.%d.", i)
		wanted = append(wanted, part{name + "weight", []int{out, in}, w.Dense[i].Weight}, part{name + "bias", []int{out}, w.Dense[i].Bias})
	}
	var read []safetensors.Tensor // in the order of tensors
	for _, t := range wanted {
		s, ok := byName[t.name]
		if !ok {
			return nil, fmt.Errorf("tensor %q is missing", t.name)
		}
		if s.Dtype != dtype(t.into) || !slices.Equal(s.Shape, t.shape) {
			return nil, fmt.Errorf("tensor %q is %s %s, want %s %v", t.name, s.Dtype, short.Text(fmt.Sprint(s.Shape)), dtype(t.into), t.shape)
		}
		if _, err := binary.Decode(s.Data, binary.LittleEndian, t.into); err != nil {
			return nil, fmt.Errorf("tensor %q: %w", t.name, err)
		}
		read = append(read, s)
		delete(byName, t.name)
	}
	for name := range byName {
		return nil, fmt.Errorf("tensor %s is unknown", short.Quote(name))
	}
	for i, r := range rows {
		if r < 0 || int(r) >= RowCount() || i > 0 && r <= rows[i-1] {
			return nil, fmt.Errorf("tensor \"rows\": number %d is %d, must be below %d and above the one before", i, r, RowCount())
		}
		row := w.Table[int(r)*c.Lanes:][:c.Lanes]
		if format == inWords {
			copy(row, words[i*c.Lanes:])
			continue
		}
		if factors[i] < 1 || factors[i] > maxFactor {
			return nil, fmt.Errorf("tensor \"factor\": that of row %d is %d, must be 1 to %d", r, factors[i], maxFactor)
		}
		for k := range row {
			row[k] = factors[i] * int16(small[i*c.Lanes+k])
		}
	}
	n, err := New(w)
	if err != nil {
		return nil, err
	}
	sum, summed := metadata[safetensors.SumKey]
	delete(metadata, safetensors.SumKey)
	if summed {
		if err := safetensors.CheckSum(sum, safetensors.Join(metadata, read)); err != nil {
			return nil, err
		}
	}
	for _, key := range reserved {
		delete(metadata, key)
	}
	n.Metadata = metadata
	return n, nil
}

// dtype returns the name that files use for the type of a tensor's numbers.
func dtype(numbers any) string {
	switch numbers.(type) {
	case []int8:
		return "I8"
	case []int16:
		return "I16"
	}
	return "I32"
}

// plain returns the file in one format, without its checksum.
func (n *Network) plain(format string) []byte {
	return safetensors.Join(n.fileMetadata(format), n.tensors(format))
}

func (n *Network) fileMetadata(format string) map[string]string {
	s := n.Weights.Sizes()
	text, err := json.Marshal(config{n.Weights.Lanes, [2]int{s[1], s[2]}})
	if err != nil {
		panic(err) // cannot happen: whole numbers always marshal
	}
	metadata := map[string]string{kindKey: kind, formatKey: format, configKey: string(text)}
	maps.Copy(metadata, n.Metadata)
	return metadata
}

// format returns inBytes if every row is a factor times bytes, and inWords otherwise.
func (n *Network) format() string {
	lanes := n.Weights.Lanes
	for row := range slices.Chunk(n.Weights.Table, lanes) {
		if _, fits := byteFactor(row); !fits {
			return inWords
		}
	}
	return inBytes
}

// Bytes returns the table as bytes and the factor of each row, if every row is such a product. If one is not, ok is false.
func (n *Network) Bytes() (table []int8, factors []uint8, ok bool) {
	lanes := n.Weights.Lanes
	table, factors = make([]int8, len(n.Weights.Table)), make([]uint8, 0, n.Weights.Rows())
	for row := range slices.Chunk(n.Weights.Table, lanes) {
		factor, fits := byteFactor(row)
		if !fits {
			return nil, nil, false
		}
		for i, x := range row {
			table[len(factors)*lanes+i] = int8(int(x) / factor)
		}
		factors = append(factors, uint8(factor))
	}
	return table, factors, true
}

// maxFactor is the largest factor whose products with all bytes fit into int16.
const maxFactor = 1<<15/128 - 1

// byteFactor returns the factor of a row, and whether the row is that factor times bytes.
func byteFactor(row []int16) (factor int, fits bool) {
	factor, most := factorOf(row)
	return factor, most <= 127*factor && factor <= maxFactor
}

// factorOf returns the greatest common divisor of a row's numbers (1 if all are 0) and the largest absolute value.
func factorOf(row []int16) (factor, most int) {
	for _, x := range row {
		size := max(int(x), -int(x))
		most = max(most, size)
		if size == 0 || factor > 0 && size%factor == 0 {
			continue
		}
		for a, b := factor, size; ; a, b = b, a%b {
			if factor = a; b == 0 {
				break
			}
		}
	}
	return max(factor, 1), most
}

func (n *Network) tensors(format string) []safetensors.Tensor {
	w := &n.Weights
	var rows []int32
	var words, factors []int16
	var small []int8
	for r := range w.Rows() {
		row := w.Table[r*w.Lanes : (r+1)*w.Lanes]
		zero := !slices.ContainsFunc(row, func(x int16) bool { return x != 0 })
		if zero && (r+1 < w.Rows() || len(rows) > 0) { // skip rows of zeros, but keep one row, because a tensor must have at least one
			continue
		}
		if rows = append(rows, int32(r)); format == inWords {
			words = append(words, row...)
			continue
		}
		factor, _ := factorOf(row)
		factors = append(factors, int16(factor))
		for _, x := range row {
			small = append(small, int8(int(x)/factor))
		}
	}
	var all []safetensors.Tensor
	add := func(name string, numbers any, shape ...int) {
		var data bytes.Buffer
		if err := binary.Write(&data, binary.LittleEndian, numbers); err != nil {
			panic(err) // cannot happen: memory always takes numbers of fixed size
		}
		all = append(all, safetensors.Tensor{Name: name, Dtype: dtype(numbers), Shape: shape, Data: data.Bytes()})
	}
	add("rows", rows, len(rows))
	if format == inWords {
		add("table", words, len(rows), w.Lanes)
	} else {
		add("table", small, len(rows), w.Lanes)
		add("factor", factors, len(rows))
	}
	add("bias", w.Bias, w.Lanes)
	sizes := w.Sizes()
	for i, l := range w.Dense {
		add(fmt.Sprintf("dense.%d.weight", i), l.Weight, sizes[i+1], sizes[i])
		add(fmt.Sprintf("dense.%d.bias", i), l.Bias, sizes[i+1])
	}
	return all
}

// ReadFile parses a file.
func ReadFile(path string) (*Network, error) {
	file, err := durable.ReadFile(path, maxFile)
	if err != nil {
		return nil, fmt.Errorf("read pattern network: %w", err)
	}
	n, err := Parse(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return n, nil
}

// Marshal returns the network as a file, with its checksum. The same network always gives the same bytes. The error names a
// reserved key of Metadata or invalid weights.
func (n *Network) Marshal() ([]byte, error) {
	for _, key := range reserved {
		if _, taken := n.Metadata[key]; taken {
			return nil, fmt.Errorf("write pattern network: metadata %s is reserved", key)
		}
	}
	if err := n.Weights.Check(groups); err != nil {
		return nil, fmt.Errorf("write pattern network: %w", err)
	}
	format := n.format()
	metadata := n.fileMetadata(format)
	metadata[safetensors.SumKey] = safetensors.Sum(n.plain(format))
	return safetensors.Join(metadata, n.tensors(format)), nil
}
