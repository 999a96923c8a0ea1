package service

import (
	"maps"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/evald/evald/cmd/evald/kserve"
	"github.com/evald/evald/engine/short"
	"github.com/evald/evald/nn/net"
)

// This file is what the server says about itself and its models. REST gives the same messages as JSON.

func (s *Server) serverMetadata() *kserve.ServerMetadataResponse {
	extensions := []string{"binary_tensor_data", "schedule_policy", "model_configuration", "statistics"}
	if s.config.Repository {
		extensions = append(extensions, "model_repository")
	}
	return &kserve.ServerMetadataResponse{Name: "evald", Version: s.config.Version, Extensions: extensions}
}

// dims is the shape of a row of an input or output on the server's own board. On other boards it differs.
func (s *Server) dims(name string) []int64 {
	b := s.board
	switch name {
	case bitboardsInput:
		return []int64{int64(2 * words(b))}
	case planesInput:
		return []int64{net.PlaneCount, int64(b.Rows()), int64(b.Columns())}
	case movesInput:
		return []int64{1}
	}
	return []int64{int64(width(name, b))}
}

var inputNames = []string{bitboardsInput, planesInput, movesInput}

func (s *Server) modelMetadata(name, version string) (*kserve.ModelMetadataResponse, error) {
	m, err := s.models.find(name, version)
	if err != nil {
		return nil, err
	}
	g := m.current.Load()
	r := &kserve.ModelMetadataResponse{Name: m.name, Versions: []string{g.Version}, Platform: g.Platform}
	of := func(name, datatype string) *kserve.ModelMetadataResponse_TensorMetadata {
		return &kserve.ModelMetadataResponse_TensorMetadata{Name: name, Datatype: datatype, Shape: append([]int64{-1}, s.dims(name)...)}
	}
	for _, name := range inputNames {
		r.Inputs = append(r.Inputs, of(name, inputTypes[name]))
	}
	for _, name := range m.outputs() {
		r.Outputs = append(r.Outputs, of(name, outputTypes[name]))
	}
	return r, nil
}

var configTypes = map[string]kserve.DataType{
	uint8Type: kserve.DataType_TYPE_UINT8, int32Type: kserve.DataType_TYPE_INT32, uint64Type: kserve.DataType_TYPE_UINT64,
	floatType: kserve.DataType_TYPE_FP32, bytesType: kserve.DataType_TYPE_STRING,
}

func (s *Server) modelConfig(name, version string) (*kserve.ModelConfig, error) {
	m, err := s.models.find(name, version)
	if err != nil {
		return nil, err
	}
	g, b := m.current.Load(), s.config.Batching
	c := &kserve.ModelConfig{
		Name: m.name, Platform: g.Platform, Backend: "evald", MaxBatchSize: int32(s.config.Limits.Batch),
		VersionPolicy:          &kserve.ModelVersionPolicy{PolicyChoice: &kserve.ModelVersionPolicy_Latest_{Latest: &kserve.ModelVersionPolicy_Latest{NumVersions: 1}}},
		ModelTransactionPolicy: &kserve.ModelTransactionPolicy{},
		ResponseCache:          &kserve.ModelResponseCache{Enable: s.cache != nil && g.Platform == NetworkPlatform},
		SchedulingChoice: &kserve.ModelConfig_DynamicBatching{DynamicBatching: &kserve.ModelDynamicBatching{
			PreferredBatchSize: []int32{int32(b.MaxRows)}, MaxQueueDelayMicroseconds: uint64(b.MaxDelay.Microseconds()),
			PriorityLevels: 3, DefaultPriorityLevel: 2,
			DefaultQueuePolicy: &kserve.ModelQueuePolicy{
				DefaultTimeoutMicroseconds: uint64(s.config.Limits.Timeout.Microseconds()), AllowTimeoutOverride: true, MaxQueueSize: uint32(b.MaxQueued),
			},
		}},
		Parameters: map[string]*kserve.ModelParameter{
			"board": {StringValue: s.board.Rules().String()},
			"how":   {StringValue: g.Describe},
		},
	}
	for _, name := range inputNames {
		c.Input = append(c.Input, &kserve.ModelInput{Name: name, DataType: configTypes[inputTypes[name]], Dims: s.dims(name), Optional: true})
	}
	for _, name := range m.outputs() {
		c.Output = append(c.Output, &kserve.ModelOutput{Name: name, DataType: configTypes[outputTypes[name]], Dims: s.dims(name)})
	}
	return c, nil
}

func (s *Server) modelStatistics(name, version string) (*kserve.ModelStatisticsResponse, error) {
	models := s.models.list()
	if name != "" {
		m, err := s.models.find(name, version)
		if err != nil {
			return nil, err
		}
		models = []*model{m}
	}
	r := &kserve.ModelStatisticsResponse{}
	for _, m := range models {
		r.ModelStats = append(r.ModelStats, m.message())
	}
	return r, nil
}

var errNoRepository = status.Error(codes.Unimplemented, "models are loaded at the start alone here; evald serve --repository allows these calls")

func (s *Server) repositoryIndex(readyOnly bool) (*kserve.RepositoryIndexResponse, error) {
	if !s.config.Repository {
		return nil, errNoRepository
	}
	index := map[string]*kserve.RepositoryIndexResponse_ModelIndex{}
	if !readyOnly {
		for _, name := range s.config.Available() {
			index[name] = &kserve.RepositoryIndexResponse_ModelIndex{Name: name, State: "UNAVAILABLE", Reason: "not loaded"}
		}
		s.models.mu.RLock()
		for name, why := range s.models.failed {
			index[name] = &kserve.RepositoryIndexResponse_ModelIndex{Name: name, State: "UNAVAILABLE", Reason: why}
		}
		s.models.mu.RUnlock()
	}
	for _, m := range s.models.list() {
		index[m.name] = &kserve.RepositoryIndexResponse_ModelIndex{Name: m.name, Version: m.current.Load().Version, State: "READY"}
	}
	r := &kserve.RepositoryIndexResponse{}
	for _, name := range slices.Sorted(maps.Keys(index)) {
		r.Models = append(r.Models, index[name])
	}
	return r, nil
}

func (s *Server) repositoryLoad(name string, parameters int) error {
	if !s.config.Repository {
		return errNoRepository
	}
	if parameters > 0 {
		return status.Error(codes.Unimplemented, "load: a model is loaded as it is, without parameters")
	}
	if !s.loadable(name) {
		return invalid("model %s: there is no model of that name; there are %v", short.Quote(name), s.config.Available())
	}
	return s.load(name)
}

// loadable reports whether a client may load a model: one that was served from the start, or any version of one that is
// available. Nobody looks for another name, so that no answer tells what else is on this machine.
func (s *Server) loadable(name string) bool {
	model, _, _ := strings.Cut(name, "@")
	return slices.Contains(s.config.Models, name) || name == searchModel || slices.Contains(s.config.Available(), model)
}

func (s *Server) repositoryUnload(name string) error {
	if !s.config.Repository {
		return errNoRepository
	}
	return s.unload(name)
}
