package ort

import (
	"fmt"
	"strings"

	"github.com/evald/evald/engine/eval"
)

// Model is an ONNX file.
type Model struct {
	Name string // for errors
	Data []byte // content of the file; it must not change while the Backend is open
}

// The providers that this package has code for. Other names are passed to the library.
const (
	CPU      = "cpu"
	CUDA     = "cuda"
	TensorRT = "tensorrt"
)

// Options of a Backend. The zero value computes on all processors.
type Options struct {
	Library string // path of libonnxruntime.so; for "" see Open

	// Provider is CPU ("" is the same), CUDA, TensorRT, or the name of another provider of the library or of Plugin, such as "XNNPACK" or
	// "OpenVINOExecutionProvider". Settings are the provider's options under ONNX Runtime's names, such as "device_id".
	Provider string
	Settings map[string]string

	// Plugin is the path of a library that contains the provider, which requires ONNX Runtime 1.22; "" if ONNX Runtime contains it.
	Plugin string

	// Threads is the number of threads of a call on the CPU; 0 means GOMAXPROCS.
	Threads int

	// Batch, if not 0, is the only batch size: smaller batches are padded to it, and larger ones split. Then answers do not depend on the
	// number of rows in a caller's batch.
	Batch int
}

// OptionsOf converts options in users' notation: library, provider and plugin under these names, and all others as settings of the
// provider.
func OptionsOf(text map[string]string) Options {
	o := Options{Settings: map[string]string{}}
	for key, value := range text {
		switch key {
		case "library":
			o.Library = value
		case "provider":
			o.Provider = value
		case "plugin":
			o.Plugin = value
		default:
			o.Settings[key] = value
		}
	}
	return o
}

func (o Options) provider() string {
	if o.Provider == "" {
		return CPU
	}
	return o.Provider
}

// onCPU reports whether the library's own CPU code computes.
func (o Options) onCPU() bool { return o.provider() == CPU }

func (o Options) source() eval.Source {
	switch o.provider() {
	case CPU:
		return eval.ORTCPU
	case CUDA:
		return eval.ORTCUDA
	case TensorRT:
		return eval.ORTTensorRT
	}
	return eval.ORT
}

func (o Options) check() error {
	switch {
	case o.Threads < 0:
		return fmt.Errorf("ONNX Runtime: threads %d: must be at least 0", o.Threads)
	case o.Batch < 0 || o.Batch > maxBatch:
		return fmt.Errorf("ONNX Runtime: batch %d: must be from 0 to %d", o.Batch, maxBatch)
	case o.onCPU() && len(o.Settings) > 0:
		return fmt.Errorf("ONNX Runtime: provider %s has no settings", CPU)
	case o.onCPU() && o.Plugin != "":
		return fmt.Errorf("ONNX Runtime: plugin %s: name its provider", o.Plugin)
	}
	return nil
}

// maxBatch is the maximum number of rows in a call of the library.
const maxBatch = 4096

// buckets are the batch sizes, in ascending order.
var buckets = []int{1, 8, 64, 256, 1024, maxBatch}

// bucket returns the smallest size with room for n rows, or the largest.
func bucket(sizes []int, n int) int {
	for _, size := range sizes {
		if n <= size {
			return size
		}
	}
	return sizes[len(sizes)-1]
}

// Signature is a model's description of itself.
type Signature struct {
	Inputs, Outputs []Port
	Metadata        map[string]string // metadata_props
}

// Port is an input or output of a model.
type Port struct {
	Name  string
	Type  Type
	Shape []Dim // nil if it is not a tensor; empty for a scalar or if the rank is unknown
}

// Dim is a dimension of a tensor: its fixed size, or -1 if it is free; a free one may have a name.
type Dim struct {
	Size int64
	Name string
}

// String returns a text such as "obs float32 [N,3,6,7]".
func (p Port) String() string {
	if p.Shape == nil {
		return p.Name + " (no tensor)"
	}
	sizes := make([]string, len(p.Shape))
	for i, d := range p.Shape {
		switch {
		case d.Size >= 0:
			sizes[i] = fmt.Sprint(d.Size)
		case d.Name != "":
			sizes[i] = d.Name
		default:
			sizes[i] = "?"
		}
	}
	return fmt.Sprintf("%s %v [%s]", p.Name, p.Type, strings.Join(sizes, ","))
}

// String lists all inputs and outputs with types and shapes.
func (s Signature) String() string {
	list := func(ports []Port) string {
		texts := make([]string, len(ports))
		for i, p := range ports {
			texts[i] = p.String()
		}
		return strings.Join(texts, ", ")
	}
	return "inputs " + list(s.Inputs) + "; outputs " + list(s.Outputs)
}

// accept returns an error if a codec does not fit the model; the error lists all inputs and outputs of the model. The library checks
// outputs of unknown rank when it runs.
func (s Signature) accept(c Codec) error {
	complain := func(format string, args ...any) error {
		return fmt.Errorf("%s; the model has %v", fmt.Sprintf(format, args...), s)
	}
	for _, side := range []struct {
		name  string
		want  []Tensor
		ports []Port
	}{{"input", c.Inputs, s.Inputs}, {"output", c.Outputs, s.Outputs}} {
		for _, t := range side.want {
			p, ok := find(side.ports, t.Name)
			switch {
			case !ok:
				return complain("%s %q is missing", side.name, t.Name)
			case p.Type != t.Type:
				return complain("%s %q is of %v, want %v", side.name, t.Name, p.Type, t.Type)
			case t.Type.size() == 0:
				return complain("%s %q: %v is not supported", side.name, t.Name, t.Type)
			case !p.fits(t) && !(side.name == "output" && p.Shape != nil && len(p.Shape) == 0):
				return complain("%s %q has another shape, want %v", side.name, t.Name, t)
			}
		}
	}
	for _, p := range s.Inputs {
		if !fills(c.Inputs, p.Name) {
			return complain("input %q gets no values", p.Name)
		}
	}
	if len(c.Inputs) == 0 || len(c.Outputs) == 0 {
		return complain("at least one input and one output must be named")
	}
	return nil
}

func find(ports []Port, name string) (Port, bool) {
	for _, p := range ports {
		if p.Name == name {
			return p, true
		}
	}
	return Port{}, false
}

func fills(inputs []Tensor, name string) bool {
	for _, t := range inputs {
		if t.Name == name {
			return true
		}
	}
	return false
}

// fits reports whether the port can have the tensor's shape on some board.
func (p Port) fits(t Tensor) bool {
	if len(p.Shape) != 1+len(t.Shape) {
		return false
	}
	for i, size := range t.Shape {
		if d := p.Shape[1+i]; d.Size >= 0 && size >= 0 && d.Size != int64(size) {
			return false
		}
	}
	return true
}

// batches returns the batch sizes for this model: Options.Batch, the model's fixed size, or the buckets.
func (s Signature) batches(o Options) ([]int, error) {
	sizes := buckets
	if o.Batch > 0 {
		sizes = []int{o.Batch}
	}
	for _, p := range s.Inputs {
		fixed := p.Shape[0].Size
		switch {
		case fixed < 0:
		case fixed == 0 || fixed > maxBatch || o.Batch > 0 && fixed != int64(o.Batch):
			return nil, fmt.Errorf("input %v has batches of %d; export it with a free batch, or of 1 to %d", p, fixed, maxBatch)
		default:
			sizes = []int{int(fixed)}
		}
	}
	return sizes, nil
}

// freeSizes returns the sizes of the model's named free dimensions for inputs with the given shapes. It returns an error if the model fixes
// another size, or uses a name for two sizes.
func (s Signature) freeSizes(inputs []Tensor, shapes [][]int64) (map[string]int64, error) {
	sizes := map[string]int64{}
	for i, t := range inputs {
		p, _ := find(s.Inputs, t.Name)
		for k, d := range p.Shape {
			want := shapes[i][k]
			if d.Size >= 0 && d.Size != want {
				return nil, fmt.Errorf("input %v cannot have the shape %v of this board and batch", p, shapes[i])
			}
			if d.Size >= 0 || d.Name == "" {
				continue
			}
			if had, ok := sizes[d.Name]; ok && had != want {
				return nil, fmt.Errorf("input %v cannot have the shape %v of this board and batch: %s is %d already", p, shapes[i], d.Name, had)
			}
			sizes[d.Name] = want
		}
	}
	return sizes, nil
}
