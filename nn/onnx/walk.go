package onnx

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/evald/evald/engine/short"
)

// walk visits each message of a file once. Names of fields are those of onnx.proto (see proto.go).
type walk struct {
	info      *Info
	functions map[operator]bool // functions of the file
	used      []use             // uses of operators that only functions of the file can define
	graphs    int
	items     int
}

// item counts an item that is stored, so that a forged file cannot make Read use memory many times the file's size.
func (w *walk) item() error {
	if w.items++; w.items > maxItems {
		return fmt.Errorf("the file has more than %d nodes, tensors, inputs, outputs and properties", maxItems)
	}
	return nil
}

type operator struct{ domain, name string }

type use struct {
	operator
	at string
}

// domains are the domains of operators that are built into ONNX Runtime.
var domains = []string{"", "ai.onnx", "ai.onnx.ml", "com.microsoft"}

func (w *walk) model(message []byte) error {
	var producer, version string
	err := each(message, func(f field) error {
		if err := w.item(); err != nil {
			return err
		}
		switch f.number {
		case 1: // ir_version
			return f.integer(&w.info.IR)
		case 2: // producer_name
			return f.text(&producer)
		case 3: // producer_version
			return f.text(&version)
		case 7: // graph
			if w.graphs++; w.graphs > 1 {
				return damaged(errors.New("there are two graphs"))
			}
			return nest(f, w.outer)
		case 8: // opset_import
			return nest(f, w.opset)
		case 14: // metadata_props
			return nest(f, w.property)
		case 20: // training_info
			return errors.New("the file has graphs for training: export the network for inference")
		case 25: // functions
			return nest(f, w.function)
		}
		return nil
	})
	switch {
	case err != nil:
		return err
	case w.graphs == 0 || w.info.IR <= 0:
		return damaged(errors.New("there is no graph, or no version of the format"))
	case len(w.info.Outputs) == 0:
		return errors.New("the graph has no outputs")
	}
	for _, u := range w.used {
		if !w.functions[u.operator] {
			return fmt.Errorf("%s: its operator has domain %s, which is not built into ONNX Runtime: export the network with standard operators", u.at, short.Quote(u.domain))
		}
	}
	if w.info.Producer = producer; version != "" {
		w.info.Producer += " " + version
	}
	return nil
}

// nest visits the fields of a field that contains a message.
func nest(f field, visit func(message []byte) error) error {
	message, err := f.message()
	if err != nil {
		return err
	}
	return visit(message)
}

func (w *walk) opset(message []byte) error {
	domain, version := "", int64(0)
	err := each(message, func(f field) error {
		switch f.number {
		case 1:
			return f.text(&domain)
		case 2:
			return f.integer(&version)
		}
		return nil
	})
	if domain == "ai.onnx" { // a synonym
		domain = ""
	}
	w.info.Opsets[domain] = version
	return err
}

func (w *walk) property(message []byte) error {
	var key, value string
	err := each(message, func(f field) error {
		switch f.number {
		case 1:
			return f.text(&key)
		case 2:
			return f.text(&value)
		}
		return nil
	})
	w.info.Metadata[key] = value
	return err
}

// outer visits the model's graph.
func (w *walk) outer(message []byte) error {
	initializers := map[string]bool{}
	err := w.graph(message, "", 0, func(f field) error {
		switch f.number {
		case 5: // initializer
			name, n, err := tensor(f.bytes)
			initializers[name] = true
			w.info.Parameters += n
			return err
		case 15: // sparse_initializer
			name, n, err := sparse(f.bytes)
			initializers[name] = true
			w.info.Parameters += n
			return err
		case 11: // input
			v, err := readValue(f, "input")
			w.info.Inputs = append(w.info.Inputs, v)
			return err
		case 12: // output
			v, err := readValue(f, "output")
			w.info.Outputs = append(w.info.Outputs, v)
			return err
		}
		return nil
	})
	w.info.Inputs = slices.DeleteFunc(w.info.Inputs, func(v Value) bool { return initializers[v.Name] })
	if err == nil && w.info.Parameters > maxParameters {
		return fmt.Errorf("the network has %d parameters, must have at most %d", w.info.Parameters, maxParameters)
	}
	return err
}

// graph visits the nodes and checks the tensors of a graph; at names the enclosing item. also, if not nil, is called with each checked
// field.
func (w *walk) graph(message []byte, at string, depth int, also func(field) error) error {
	if depth > maxNesting {
		return fmt.Errorf("%s: graphs are nested more than %d deep", at, maxNesting)
	}
	return each(message, func(f field) error {
		err := w.item()
		if err != nil {
			return err
		}
		switch f.number {
		case 1: // node
			err = nest(f, func(m []byte) error { return w.node(m, at, depth) })
		case 5: // initializer
			err = nest(f, func(m []byte) error { return checkTensor(m, at, "initializer") })
		case 15: // sparse_initializer
			err = nest(f, func(m []byte) error { return checkSparse(m, at, "initializer") })
		}
		if err == nil && also != nil {
			err = also(f)
		}
		return err
	})
}

func (w *walk) function(message []byte) error {
	var o operator
	names := func(f field) error {
		switch f.number {
		case 1:
			return f.text(&o.name)
		case 10:
			return f.text(&o.domain)
		}
		return nil
	}
	if err := each(message, names); err != nil {
		return err
	}
	at := "function " + short.Quote(o.name)
	w.functions[o] = true
	return each(message, func(f field) error {
		if err := w.item(); err != nil {
			return err
		}
		switch f.number {
		case 7: // node
			return nest(f, func(m []byte) error { return w.node(m, at, 0) })
		case 11: // attribute_proto
			return nest(f, func(m []byte) error { return w.attribute(m, at, 0) })
		}
		return nil
	})
}

func (w *walk) node(message []byte, at string, depth int) error {
	var name string
	var o operator
	names := func(f field) error {
		switch f.number {
		case 3:
			return f.text(&name)
		case 4:
			return f.text(&o.name)
		case 7:
			return f.text(&o.domain)
		}
		return nil
	}
	if err := each(message, names); err != nil {
		return err
	}
	at = inside(at, fmt.Sprintf("node %s (%s)", short.Quote(name), short.Text(o.name)))
	w.info.Nodes++
	if o.name == "EPContext" {
		return fmt.Errorf("%s: it may name other files: give the original ONNX file, before it was compiled for a device", at)
	}
	if !slices.Contains(domains, o.domain) {
		w.used = append(w.used, use{o, at})
	}
	return each(message, func(f field) error {
		if f.number != 5 { // attribute
			return nil
		}
		return nest(f, func(m []byte) error { return w.attribute(m, at, depth) })
	})
}

func (w *walk) attribute(message []byte, at string, depth int) error {
	return each(message, func(f field) error {
		switch f.number {
		case 5, 10: // t, tensors
			return nest(f, func(m []byte) error { return checkTensor(m, at, "tensor") })
		case 6, 11: // g, graphs
			return nest(f, func(m []byte) error { return w.graph(m, at, depth+1, nil) })
		case 22, 23: // sparse_tensor, sparse_tensors
			return nest(f, func(m []byte) error { return checkSparse(m, at, "tensor") })
		}
		return nil
	})
}

// inside returns the name of an item within another, if the outer one has a name. It names only the innermost two items, because otherwise
// names in nested graphs would grow with the depth.
func inside(outer, inner string) string {
	if outer == "" {
		return inner
	}
	return inner + " in " + short.To(outer, 100)
}

func checkTensor(message []byte, at, what string) error {
	name, _, err := tensor(message)
	if err != nil {
		return fmt.Errorf("%s: %w", inside(at, what+" "+short.Quote(name)), err)
	}
	return nil
}

func checkSparse(message []byte, at, what string) error {
	name, _, err := sparse(message)
	if err != nil {
		return fmt.Errorf("%s: %w", inside(at, what+" "+short.Quote(name)), err)
	}
	return nil
}

// tensor returns the name and the number of elements of a TensorProto, and rejects external data.
func tensor(message []byte) (name string, numbers int64, err error) {
	var dims []int64
	location, external := int64(0), false
	err = each(message, func(f field) (err error) {
		switch f.number {
		case 1: // dims
			dims, err = f.integers(dims, 64)
		case 8: // name
			err = f.text(&name)
		case 13: // external_data
			external = true
		case 14: // data_location
			if err = f.integer(&location); location != 0 {
				external = true // even if a later field differs
			}
		}
		return err
	})
	switch {
	case err != nil:
		return name, 0, err
	case external:
		return name, 0, errors.New("its data are in another file, which is not read: save the network in one file: in PyTorch torch.onnx.export(..., external_data=False), otherwise onnx.save_model without save_as_external_data")
	}
	numbers = 1
	for _, d := range dims {
		if d < 0 || d > math.MaxInt32 || numbers*d > math.MaxInt32 {
			return name, 0, damaged(fmt.Errorf("its shape is %v", dims))
		}
		numbers *= d
	}
	if numbers > 8*int64(len(message)) { // the smallest types have 2 bits; only damaged files contain less data
		return name, 0, damaged(fmt.Errorf("it has %d numbers in %d bytes", numbers, len(message)))
	}
	return name, numbers, nil
}

// sparse is tensor for a SparseTensorProto: it returns the name and the number of its values.
func sparse(message []byte) (name string, numbers int64, err error) {
	err = each(message, func(f field) error {
		switch f.number {
		case 1: // values
			return nest(f, func(m []byte) (err error) {
				name, numbers, err = tensor(m)
				return err
			})
		case 2: // indices
			return nest(f, func(m []byte) error {
				_, _, err := tensor(m)
				return err
			})
		}
		return nil
	})
	return name, numbers, err
}

// readValue parses a ValueInfoProto, which must be a tensor.
func readValue(f field, what string) (v Value, err error) {
	isTensor := false
	err = nest(f, func(m []byte) error {
		return each(m, func(f field) error {
			switch f.number {
			case 1: // name
				return f.text(&v.Name)
			case 2: // type
				return nest(f, func(m []byte) error {
					return each(m, func(f field) error {
						if f.number != 1 { // tensor_type
							return nil
						}
						isTensor = true
						return nest(f, v.tensorType)
					})
				})
			}
			return nil
		})
	})
	if err == nil && !isTensor {
		err = errors.New("it is not a tensor")
	}
	if err != nil {
		return v, fmt.Errorf("%s %s: %w", what, short.Quote(v.Name), err)
	}
	return v, nil
}

func (v *Value) tensorType(message []byte) error {
	return each(message, func(f field) error {
		switch f.number {
		case 1: // elem_type
			var n int64
			err := f.integer(&n)
			v.Type = Type(n)
			return err
		case 2: // shape
			v.Shape = []Dim{}
			return nest(f, func(m []byte) error { return each(m, v.dimension) })
		}
		return nil
	})
}

// dimension appends a dimension of a TensorShapeProto.
func (v *Value) dimension(f field) error {
	if f.number != 1 {
		return nil
	}
	if len(v.Shape) == maxDims {
		return fmt.Errorf("it has more than %d dimensions", maxDims)
	}
	d := Dim{Size: -1}
	err := nest(f, func(m []byte) error {
		return each(m, func(f field) error {
			switch f.number {
			case 1: // dim_value
				return f.integer(&d.Size)
			case 2: // dim_param
				return f.text(&d.Name)
			}
			return nil
		})
	})
	switch {
	case err != nil:
		return err
	case d.Size > math.MaxInt32:
		return damaged(fmt.Errorf("a dimension is %d", d.Size))
	case d.Size <= 0 && d.Name == "": // some programs write 0 for a free dimension
		d.Size = -1
	case d.Name != "":
		d.Size = -1
	}
	v.Shape = append(v.Shape, d)
	return nil
}
