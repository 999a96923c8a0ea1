package service

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/evald/evald/cmd/evald/kserve"
	"github.com/evald/evald/engine/queue"
	"github.com/evald/evald/engine/short"
	"github.com/evald/evald/nn/net"
)

// This file has the gRPC calls that describe the server and its models. REST returns the same messages as JSON.

func (s grpcService) ServerLive(context.Context, *kserve.ServerLiveRequest) (*kserve.ServerLiveResponse, error) {
	return &kserve.ServerLiveResponse{Live: true}, nil
}

func (s grpcService) ServerReady(context.Context, *kserve.ServerReadyRequest) (*kserve.ServerReadyResponse, error) {
	return &kserve.ServerReadyResponse{Ready: s.isReady()}, nil
}

func (s grpcService) ModelReady(_ context.Context, r *kserve.ModelReadyRequest) (*kserve.ModelReadyResponse, error) {
	_, err := s.models.find(r.Name, r.Version)
	return &kserve.ModelReadyResponse{Ready: err == nil && s.isReady()}, nil
}

func (s grpcService) ServerMetadata(context.Context, *kserve.ServerMetadataRequest) (*kserve.ServerMetadataResponse, error) {
	extensions := []string{"binary_tensor_data", "schedule_policy", "model_configuration", "statistics"}
	if s.config.Repository {
		extensions = append(extensions, "model_repository")
	}
	return &kserve.ServerMetadataResponse{Name: "evald", Version: s.config.Version, Extensions: extensions}, nil
}

// dims returns the shape of a row of an input or output on the server's default board. Other boards have other shapes.
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
	return []int64{int64(outputs[name].columns(b))}
}

var inputNames = []string{bitboardsInput, planesInput, movesInput}

// versions returns the served versions of a model's name, the oldest first.
func (s *Server) versions(m *model) (all []string) {
	for _, other := range slices.Backward(of(s.models.list(), m.name)) {
		all = append(all, other.Version)
	}
	return all
}

func (s grpcService) ModelMetadata(_ context.Context, ask *kserve.ModelMetadataRequest) (*kserve.ModelMetadataResponse, error) {
	m, err := s.models.find(ask.Name, ask.Version)
	if err != nil {
		return nil, err
	}
	r := &kserve.ModelMetadataResponse{Name: m.name, Versions: s.versions(m), Platform: m.Platform}
	of := func(name, datatype string) *kserve.ModelMetadataResponse_TensorMetadata {
		return &kserve.ModelMetadataResponse_TensorMetadata{Name: name, Datatype: datatype, Shape: append([]int64{-1}, s.dims(name)...)}
	}
	for _, name := range inputNames {
		r.Inputs = append(r.Inputs, of(name, inputTypes[name]))
	}
	for _, name := range m.outputs() {
		r.Outputs = append(r.Outputs, of(name, outputs[name].datatype))
	}
	return r, nil
}

// configType converts a datatype of tensors to the form in model configurations.
func configType(datatype string) kserve.DataType {
	return kserve.DataType(kserve.DataType_value["TYPE_"+strings.Replace(datatype, bytesType, "STRING", 1)])
}

func (s grpcService) ModelConfig(_ context.Context, ask *kserve.ModelConfigRequest) (*kserve.ModelConfigResponse, error) {
	m, err := s.models.find(ask.Name, ask.Version)
	if err != nil {
		return nil, err
	}
	c := &kserve.ModelConfig{
		Name: m.name, Platform: m.Platform, Backend: "evald", MaxBatchSize: int32(s.config.Limits.Batch),
		VersionPolicy:          &kserve.ModelVersionPolicy{PolicyChoice: &kserve.ModelVersionPolicy_Latest_{Latest: &kserve.ModelVersionPolicy_Latest{NumVersions: 1}}},
		ModelTransactionPolicy: &kserve.ModelTransactionPolicy{},
		ResponseCache:          &kserve.ModelResponseCache{Enable: m.Cache > 0 && m.Platform == NetworkPlatform},
		SchedulingChoice:       &kserve.ModelConfig_DynamicBatching{DynamicBatching: m.batching()},
		InstanceGroup:          []*kserve.ModelInstanceGroup{m.instances()},
		Parameters: map[string]*kserve.ModelParameter{
			"board": {StringValue: s.board.Rules().String()},
			"how":   {StringValue: m.Describe},
		},
	}
	number := func(name string, n int) { c.Parameters[name] = &kserve.ModelParameter{StringValue: strconv.Itoa(n)} }
	if m.searches {
		number("visits", m.Visits)
		number("max-visits", m.MaxVisits)
		c.Parameters["plain"] = &kserve.ModelParameter{StringValue: strconv.FormatBool(m.Backend.Attributes().Plain)}
	}
	if c.ResponseCache.Enable {
		number("cache", m.Cache)
	}
	if m.Exact > 0 && !m.searches && !m.solves() {
		number("exact", int(m.Exact))
	}
	if m.solves() {
		number("nodes", m.Nodes)
		number("max-nodes", m.MaxNodes)
	}
	if versions := s.versions(m); len(versions) > 1 {
		specific := &kserve.ModelVersionPolicy_Specific{}
		for _, v := range versions {
			n, _ := strconv.ParseInt(v, 10, 64) // 0 if a file's version is not a number
			specific.Versions = append(specific.Versions, n)
		}
		c.VersionPolicy.PolicyChoice = &kserve.ModelVersionPolicy_Specific_{Specific: specific}
	}
	if m.WarmUp > 0 && !m.searches {
		c.ModelWarmup = []*kserve.ModelWarmup{{
			Name: "empty boards", BatchSize: uint32(min(m.WarmUp, m.MaxRows)), Count: uint32((m.WarmUp + m.MaxRows - 1) / m.MaxRows),
			Inputs: map[string]*kserve.ModelWarmup_Input{bitboardsInput: {
				DataType: configType(uint64Type), Dims: s.dims(bitboardsInput), InputDataType: &kserve.ModelWarmup_Input_ZeroData{ZeroData: true},
			}},
		}}
	}
	for _, name := range inputNames {
		c.Input = append(c.Input, &kserve.ModelInput{Name: name, DataType: configType(inputTypes[name]), Dims: s.dims(name), Optional: true})
	}
	for _, name := range m.outputs() {
		c.Output = append(c.Output, &kserve.ModelOutput{Name: name, DataType: configType(outputs[name].datatype), Dims: s.dims(name)})
	}
	return &kserve.ModelConfigResponse{Config: c}, nil
}

// batching describes how requests to the model are merged into batches, and how long they wait.
func (m *model) batching() *kserve.ModelDynamicBatching {
	policy := func(p queue.Priority) *kserve.ModelQueuePolicy {
		return &kserve.ModelQueuePolicy{
			DefaultTimeoutMicroseconds: uint64(cmp.Or(m.MaxWait[p+1], m.Timeout).Microseconds()), AllowTimeoutOverride: true,
			MaxQueueSize: uint32(queue.Config{MaxQueued: m.MaxQueued}.Room(p)),
		}
	}
	return &kserve.ModelDynamicBatching{
		PreferredBatchSize: []int32{int32(m.MaxRows)}, MaxQueueDelayMicroseconds: uint64(m.MaxDelay.Microseconds()),
		PriorityLevels: 3, DefaultPriorityLevel: 2, DefaultQueuePolicy: policy(queue.Normal),
		PriorityQueuePolicy: map[uint64]*kserve.ModelQueuePolicy{1: policy(queue.High), 2: policy(queue.Normal), 3: policy(queue.Low)},
	}
}

// instances describes how many batches the model computes at once, on each GPU or on the CPU.
func (m *model) instances() *kserve.ModelInstanceGroup {
	group := &kserve.ModelInstanceGroup{Name: m.name, Kind: kserve.ModelInstanceGroup_KIND_CPU, Count: int32(m.inFlight)}
	for _, d := range m.devices() {
		group.Gpus = append(group.Gpus, int32(d.Index))
	}
	if group.Gpus == nil {
		return group
	}
	group.Kind, group.Count = kserve.ModelInstanceGroup_KIND_GPU, int32((m.inFlight+len(group.Gpus)-1)/max(1, len(group.Gpus)))
	return group
}

func (s grpcService) ModelStatistics(_ context.Context, ask *kserve.ModelStatisticsRequest) (*kserve.ModelStatisticsResponse, error) {
	models := s.models.list()
	if ask.Name != "" {
		m, err := s.models.find(ask.Name, ask.Version)
		if err != nil {
			return nil, err
		}
		models = slices.DeleteFunc(models, func(other *model) bool { return other != m && (ask.Version != "" || other.name != m.name) })
	}
	r := &kserve.ModelStatisticsResponse{}
	for _, m := range models {
		r.ModelStats = append(r.ModelStats, m.message())
	}
	return r, nil
}

var errNoRepository = status.Error(codes.Unimplemented, "models are loaded at the start alone here; evald serve --repository allows these calls")

func (s grpcService) RepositoryIndex(_ context.Context, ask *kserve.RepositoryIndexRequest) (*kserve.RepositoryIndexResponse, error) {
	if !s.config.Repository {
		return nil, errNoRepository
	}
	index := map[string]*kserve.RepositoryIndexResponse_ModelIndex{}
	s.models.mu.RLock()
	failed := maps.Clone(s.models.failed)
	s.models.mu.RUnlock()
	if !ask.Ready {
		for _, name := range s.config.Available() {
			index[name] = &kserve.RepositoryIndexResponse_ModelIndex{Name: name, State: "UNAVAILABLE", Reason: "not loaded"}
		}
		for ref, why := range failed {
			name, version, _ := strings.Cut(ref, "@")
			index[ref] = &kserve.RepositoryIndexResponse_ModelIndex{Name: name, Version: version, State: "UNAVAILABLE", Reason: why}
		}
	}
	for _, m := range s.models.list() {
		if i := index[m.name]; i != nil && failed[m.name] == "" { // replaces the entry of an available model that is not served
			delete(index, m.name)
		}
		index[m.ref] = &kserve.RepositoryIndexResponse_ModelIndex{Name: m.name, Version: m.Version, State: "READY", Reason: failed[m.ref]}
	}
	r := &kserve.RepositoryIndexResponse{}
	for _, name := range slices.Sorted(maps.Keys(index)) {
		r.Models = append(r.Models, index[name])
	}
	return r, nil
}

func (s grpcService) RepositoryModelLoad(_ context.Context, ask *kserve.RepositoryModelLoadRequest) (*kserve.RepositoryModelLoadResponse, error) {
	var err error
	switch {
	case !s.config.Repository:
		err = errNoRepository
	case len(ask.Parameters) > 0:
		err = status.Error(codes.Unimplemented, "load: a model is loaded as it is, without parameters")
	case !s.loadable(ask.ModelName):
		err = invalid("model %s: there is no model of that name; there are %v", short.Quote(ask.ModelName), s.config.Available())
	default:
		if err = s.load(ask.ModelName); err != nil && !errors.Is(err, errDraining) {
			err = invalid("%s", err)
		}
	}
	return &kserve.RepositoryModelLoadResponse{}, err
}

// loadable reports whether a client may load a model: a configured one, or any version of an available one. The server looks up no other
// name, so that no answer reveals which other files this machine has.
func (s *Server) loadable(name string) bool {
	model, _, _ := strings.Cut(name, "@")
	s.loading.Lock()
	defer s.loading.Unlock()
	configured := func(m Model) bool { return m.Name == name || m.Ref() == name }
	return slices.ContainsFunc(s.configured, configured) || name == searchModel || slices.Contains(s.config.Available(), model)
}

func (s grpcService) RepositoryModelUnload(_ context.Context, ask *kserve.RepositoryModelUnloadRequest) (*kserve.RepositoryModelUnloadResponse, error) {
	err := errNoRepository
	if s.config.Repository {
		err = s.unload(ask.ModelName)
	}
	return &kserve.RepositoryModelUnloadResponse{}, err
}
