package milp

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/sys"
)

// The names that the build's minifier gave to HiGHS's C interface
// (highs_c_api.h); build/highs.js of the same package maps them.
const (
	fnInit        = "v" // __wasm_call_ctors
	fnMalloc      = "uc"
	fnCreate      = "F"
	fnPassMip     = "V"
	fnRun         = "N"
	fnBoolOption  = "ia"
	fnFloatOption = "ka"
	fnGetSolution = "Ea"
	fnModelStatus = "Ga"
	fnIntInfo     = "Aa"
)

// HiGHS's own numbers.
const (
	highsOK          = 0
	highsWarning     = 1
	statusOptimal    = 7
	statusInfeasible = 8
	statusEither     = 9 // unbounded or infeasible; all our columns are bounded
	statusTimeLimit  = 13
	solutionFeasible = 2
	rowWise          = 2
	senseMaximise    = -1
)

// Solve implements Solver. Each call has an instance of the module of its own,
// which is closed when it returns.
func (h *HiGHS) Solve(ctx context.Context, m *Model, limit time.Duration) (a Answer, err error) {
	select {
	case <-h.ready:
	case <-ctx.Done():
		return Answer{}, fmt.Errorf("wait for HiGHS to be compiled: %w", context.Cause(ctx))
	}
	if h.err != nil {
		return Answer{}, h.err
	}
	ctx, cancel := context.WithTimeout(ctx, limit+grace)
	defer cancel()
	instance, err := h.runtime.InstantiateModule(ctx, h.module, wazero.NewModuleConfig().WithName("").WithStartFunctions(fnInit))
	if err != nil {
		return Answer{}, fmt.Errorf("start HiGHS: %w", ended(ctx, err))
	}
	defer func() { err = errors.Join(err, instance.Close(context.WithoutCancel(ctx))) }()
	c := &call{ctx: ctx, m: instance}
	begin := time.Now()
	a = c.solve(m, limit)
	a.Took = time.Since(begin)
	if c.err != nil {
		return Answer{}, ended(ctx, c.err)
	}
	return a, nil
}

// ended says why an instance ended early.
func ended(ctx context.Context, err error) error {
	if _, exited := errors.AsType[*sys.ExitError](err); exited && ctx.Err() != nil {
		return fmt.Errorf("HiGHS was ended: %w", context.Cause(ctx))
	}
	if errors.Is(err, errAborted) {
		return errAborted // without the module's own stack
	}
	return err
}

// call is a sequence of calls of one instance; after the first error it does nothing.
type call struct {
	ctx context.Context //nolint:containedctx // it lives as long as one Solve
	m   api.Module
	err error
}

// do calls a function. Its result, if it has any, is returned as it is.
func (c *call) do(name string, args ...uint64) uint64 {
	if c.err != nil {
		return 0
	}
	out, err := c.m.ExportedFunction(name).Call(c.ctx, args...)
	if err != nil {
		c.err = err
		return 0
	}
	if len(out) == 0 {
		return 0
	}
	return out[0]
}

// must calls a function that returns a HighsStatus.
func (c *call) must(what, name string, args ...uint64) {
	status := int32(c.do(name, args...))
	if c.err == nil && status != highsOK && status != highsWarning {
		c.err = fmt.Errorf("HiGHS refused to %s (status %d)", what, status)
	}
}

// alloc is malloc. Nothing is freed: the instance is closed soon.
func (c *call) alloc(bytes int) uint64 {
	at := c.do(fnMalloc, uint64(max(bytes, 8)))
	if c.err == nil && at == 0 {
		c.err = errAborted
	}
	return at
}

func (c *call) write(at uint64, data []byte) uint64 {
	if c.err == nil && !c.m.Memory().Write(uint32(at), data) {
		c.err = fmt.Errorf("HiGHS: %d bytes do not fit at %d", len(data), at)
	}
	return at
}

func (c *call) text(s string) uint64 { return c.write(c.alloc(len(s)+1), append([]byte(s), 0)) }

func (c *call) floats(values []float64) uint64 {
	data := make([]byte, 0, 8*len(values))
	for _, v := range values {
		data = binary.LittleEndian.AppendUint64(data, math.Float64bits(v))
	}
	return c.write(c.alloc(len(data)), data)
}

func (c *call) ints(values []int32) uint64 {
	data := make([]byte, 0, 4*len(values))
	for _, v := range values {
		data = binary.LittleEndian.AppendUint32(data, uint32(v))
	}
	return c.write(c.alloc(len(data)), data)
}

func (c *call) float(name string, h uint64, v float64) {
	c.must("set "+name, fnFloatOption, h, c.text(name), math.Float64bits(v))
}

// solve passes the model, runs, and reads what came of it.
func (c *call) solve(m *Model, limit time.Duration) Answer {
	h := c.do(fnCreate)
	c.must("be quiet", fnBoolOption, h, c.text("output_flag"), 0)
	c.float("time_limit", h, limit.Seconds())
	c.float("mip_rel_gap", h, 0)
	c.float("mip_abs_gap", h, 0)
	c.pass(h, m)
	c.must("solve the model", fnRun, h)
	status := int32(c.do(fnModelStatus, h))
	switch {
	case c.err != nil:
		return Answer{}
	case status == statusInfeasible || status == statusEither:
		c.err = ErrInfeasible
		return Answer{}
	case status != statusOptimal && status != statusTimeLimit:
		c.err = fmt.Errorf("HiGHS ended with model status %d", status)
		return Answer{}
	}
	if status == statusTimeLimit && c.info(h, "primal_solution_status") != solutionFeasible {
		c.err = ErrNoPlan
		return Answer{}
	}
	return Answer{Values: c.values(h, m), Optimal: status == statusOptimal}
}

func (c *call) info(h uint64, name string) int32 {
	at := c.alloc(8)
	c.must("tell "+name, fnIntInfo, h, c.text(name), at)
	v, _ := c.m.Memory().ReadUint32Le(uint32(at))
	return int32(v)
}

func (c *call) values(h uint64, m *Model) []float64 {
	columns, rows := c.alloc(8*len(m.Columns)), c.alloc(8*len(m.Rows))
	c.must("tell its solution", fnGetSolution, h, columns, c.alloc(8*len(m.Columns)), rows, c.alloc(8*len(m.Rows)))
	values := make([]float64, len(m.Columns))
	for n := range values {
		values[n], _ = c.m.Memory().ReadFloat64Le(uint32(columns) + uint32(8*n))
	}
	return values
}

// pass hands the model over.
func (c *call) pass(h uint64, m *Model) {
	var cost, lower, upper, rowLower, rowUpper, value []float64
	var start, index, integral []int32
	for n := range m.Columns {
		x := &m.Columns[n]
		cost, lower, upper = append(cost, x.Objective), append(lower, x.Lower), append(upper, x.Upper)
		integral = append(integral, int32(indicator(x.Integer)))
	}
	for n := range m.Rows {
		from, to := m.Rows[n].bounds()
		rowLower, rowUpper = append(rowLower, from), append(rowUpper, to)
		start = append(start, int32(len(index)))
		for _, t := range m.Rows[n].Terms {
			index, value = append(index, int32(t.Column)), append(value, t.Coef)
		}
	}
	sense := int32(senseMaximise)
	c.must("take the model", fnPassMip, h, uint64(len(cost)), uint64(len(rowLower)), uint64(len(index)),
		rowWise, uint64(uint32(sense)), 0, c.floats(cost), c.floats(lower), c.floats(upper),
		c.floats(rowLower), c.floats(rowUpper), c.ints(start), c.ints(index), c.floats(value), c.ints(integral))
}
