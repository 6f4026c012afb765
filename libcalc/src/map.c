/*
 * map.c - the entry points of element-wise computations: check, choose the backend, call it.
 */
#include "flags.h"
#include "internal.h"

static mylib_overlap find_overlap(const mylib_program *program, const mylib_layout *layout)
{
    mylib_overlap overlap = MYLIB_DISJOINT;
    for (int k = 1; k < layout->operands; k++) {
        if (layout->is_host_scalar[k])
            continue;
        mylib_overlap o =
            mylib_layout_overlap(layout, k, (size_t)mylib_program_operand_size(program, 0),
                                 (size_t)mylib_program_operand_size(program, k));
        overlap = o > overlap ? o : overlap;
    }
    return mylib_elements_overlap(layout->ndim, layout->shape, layout->strides[0],
                                  (size_t)mylib_program_operand_size(program, 0))
               ? MYLIB_OVERLAP
               : overlap;
}

static mylib_status call_backend(const mylib_program *program, mylib_device device, void *stream,
                                 const mylib_array *out, mylib_layout *layout,
                                 const char *const *names)
{
    mylib_overlap overlap = layout->count == 0 ? MYLIB_DISJOINT : find_overlap(program, layout);

    if (device.kind == MYLIB_CPU) {
        if (layout->count == 0)
            return MYLIB_OK;
        if (overlap == MYLIB_OVERLAP)
            return mylib_cpu_run_in_order(program, layout);
        mylib_layout_simplify(layout);
        return mylib_cpu_run(program, layout);
    }

    if (overlap == MYLIB_OVERLAP)
        return mylib_fail(
            MYLIB_ERR_ARGUMENT,
            "out overlaps an input or itself: on a GPU it must be exactly an input, or disjoint");
    mylib_layout_simplify(layout);
    return out->device.kind == MYLIB_CUDA
               ? mylib_cuda_map(device.index, stream, program, layout, names)
               : mylib_cuda_map_host(device.index, program, layout);
}

static mylib_status map_layout(const mylib_program *program, mylib_device device, void *stream,
                               const mylib_array *out, const mylib_array *in, mylib_layout *layout,
                               const char *const *names)
{
    RETURN_IF_ERROR(mylib_check_places(device, out, in, layout->operands - 1, names + 1));
    ENTER_DEFAULT_MODE();
    RETURN_IF_ERROR(mylib_check_exponents(program, out->device, stream, layout));
    return call_backend(program, device, stream, out, layout, names);
}

/*
 * Tells whether checked arrays make a power of floats with the scalar 2 in host memory, which the
 * call does not overwrite: x * x (power.h).  Compares bits: the caller's mode is in force.
 */
static int is_square(mylib_op op, mylib_type type, const mylib_layout *layout,
                     const mylib_array *in)
{
    static const t_f16 half = {0x4000};
    static const t_f32 single = 2;
    static const t_f64 number = 2;
    const void *two = type == MYLIB_F16   ? (const void *)&half
                      : type == MYLIB_F32 ? (const void *)&single
                                          : (const void *)&number;
    const size_t size = mylib_type_size(type);
    return op == MYLIB_OP_power && type >= MYLIB_F16 && type <= MYLIB_F64 && layout->count != 0 &&
           in[1].type == type && in[1].ndim == 0 && in[1].device.kind == MYLIB_CPU &&
           memcmp(in[1].data, two, size) == 0 &&
           mylib_layout_overlap(layout, 2, size, size) == MYLIB_DISJOINT;
}

/* Does mylib_map(), which ignores `type`, or mylib_map_as() if `converts`. */
static mylib_status map(mylib_op op, mylib_type type, int converts, mylib_device device,
                        void *stream, const mylib_array *out, const mylib_array *in)
{
    mylib_operation operation;
    mylib_type input_types[2];
    DECLARE_LAYOUT(layout, 3);

    RETURN_IF_NULL(in);
    type = converts ? type : in[0].type;
    int inputs = mylib_op_arity(op);
    for (int k = 0; k < inputs; k++)
        input_types[k] = in[k].type;
    int is_mixed = !converts && inputs == 2 && in[0].type != in[1].type &&
                   mylib_is_mixed_comparison(op, input_types);
    if (is_mixed)
        mylib_operation_of_mixed_comparison(&operation, op, input_types);
    else
        RETURN_IF_ERROR(mylib_operation_of_op(&operation, op, type, input_types));
    RETURN_IF_ERROR(mylib_check_device_of_call(device));
    RETURN_IF_ERROR(mylib_layout_init(&layout, out, in, inputs));
    for (int k = 0; k < inputs && !converts && !is_mixed; k++)
        if (in[k].type != type)
            return mylib_fail(MYLIB_ERR_ARGUMENT,
                              "in[0] is %s but in[%d] is %s: convert them to one type",
                              mylib_type_name(type), k, mylib_type_name(in[k].type));
    if (out->type != operation.program.result_type)
        return mylib_fail(MYLIB_ERR_ARGUMENT, "%s of %s gives %s, but out is %s", mylib_op_name(op),
                          mylib_type_name(type),
                          mylib_type_name((mylib_type)operation.program.result_type),
                          mylib_type_name(out->type));
    if (is_square(op, type, &layout, in)) {
        /* The square has no exponent: check its place here. */
        RETURN_IF_ERROR(mylib_check_places(device, out, in, 2, mylib_operand_names + 1));
        RETURN_IF_ERROR(mylib_operation_of_op(&operation, MYLIB_OP_square, type, input_types));
        layout.operands = 2;
    }
    return map_layout(&operation.program, device, stream, out, in, &layout, mylib_operand_names);
}

mylib_status mylib_map(mylib_op op, mylib_device device, void *stream, const mylib_array *out,
                       const mylib_array *in)
{
    return map(op, MYLIB_BOOL, 0, device, stream, out, in);
}

mylib_status mylib_map_as(mylib_op op, mylib_type type, mylib_device device, void *stream,
                          const mylib_array *out, const mylib_array *in)
{
    return map(op, type, 1, device, stream, out, in);
}

mylib_status mylib_select(mylib_device device, void *stream, const mylib_array *out,
                          const mylib_array *condition, const mylib_array *a, const mylib_array *b)
{
    static const char *const names[] = {"out", "condition", "a", "b"};
    const mylib_array *given[] = {condition, a, b};
    mylib_array in[3] = {{0}, {0}, {0}};
    mylib_type types[3];
    mylib_operation operation;
    DECLARE_LAYOUT(layout, 4);

    for (int k = 0; k < 3; k++) {
        RETURN_IF_ERROR(mylib_check_array(names[1 + k], given[k]));
        in[k] = *given[k];
        types[k] = in[k].type;
    }
    RETURN_IF_ERROR(mylib_check_device_of_call(device));
    RETURN_IF_ERROR(mylib_layout_init_named(&layout, out, in, 3, names));
    mylib_operation_of_select(&operation, out->type, types);
    return map_layout(&operation.program, device, stream, out, in, &layout, names);
}

mylib_status mylib_program_run(const mylib_program *program, mylib_device device, void *stream,
                               const mylib_array *out, const mylib_array *in)
{
    RETURN_IF_NULL(program);
    DECLARE_LARGE_LAYOUT(layout, 1 + program->inputs);
    RETURN_IF_ERROR(mylib_check_device_of_call(device));
    RETURN_IF_ERROR(mylib_layout_init(&layout, out, in, program->inputs));
    RETURN_IF_ERROR(mylib_check_input_types(program, in));
    if (out->type != program->result_type)
        return mylib_fail(MYLIB_ERR_ARGUMENT, "the program gives %s, but out is %s",
                          mylib_type_name((mylib_type)program->result_type),
                          mylib_type_name(out->type));
    RETURN_IF_ERROR(map_layout(program, device, stream, out, in, &layout, mylib_operand_names));
    if (layout.count != 0 && out->device.kind == MYLIB_CPU)
        mylib_raise_flags(program->flags);
    return MYLIB_OK;
}

mylib_status mylib_arange(void *stream, const mylib_array *out, const void *start, const void *step)
{
    int64_t strides[MYLIB_MAX_NDIM];

    RETURN_IF_ERROR(mylib_check_array("out", out));
    RETURN_IF_NULL(start);
    RETURN_IF_NULL(step);
    if (out->ndim != 1)
        return mylib_fail(MYLIB_ERR_ARGUMENT, "out has %d dimensions: expected 1", (int)out->ndim);
    if (out->type == MYLIB_BOOL)
        return mylib_fail(MYLIB_ERR_UNSUPPORTED, "out is bool: a range needs a type of numbers");
    mylib_array_strides(out, strides);
    int64_t n = out->shape[0], stride = strides[0];
    if (n == 0)
        return MYLIB_OK;
    if (out->device.kind == MYLIB_CUDA &&
        mylib_elements_overlap(1, &n, &stride, mylib_type_size(out->type)))
        return mylib_fail(MYLIB_ERR_ARGUMENT, "out overlaps itself: its stride is %lld bytes",
                          (long long)stride);
    ENTER_DEFAULT_MODE();
    if (out->device.kind == MYLIB_CUDA)
        return mylib_cuda_arange(out->device.index, stream, out->type, n, out->data, stride, start,
                                 step);
    mylib_cpu_arange(out->type, n, out->data, stride, start, step);
    return MYLIB_OK;
}

static mylib_status map_row(mylib_op op, mylib_type type, const mylib_program *program,
                            mylib_layout *layout)
{
    if (find_overlap(program, layout) != MYLIB_OVERLAP) {
        mylib_layout_simplify(layout);
        return mylib_cpu_run(program, layout);
    }
    if (op == MYLIB_OP_add && type != MYLIB_BOOL && layout->data[0] == layout->data[1] &&
        layout->strides[0][0] == 0 && layout->strides[1][0] == 0 && layout->count > 1) {
        size_t size = mylib_type_size(type);
        if (mylib_layout_overlap(layout, 2, size, size) == MYLIB_DISJOINT) {
            return mylib_cpu_fold_sum(type, layout->count, layout->data[0], layout->data[2],
                                      layout->strides[2][0]);
        }
    }
    return mylib_cpu_run_in_order(program, layout);
}

mylib_status mylib_map1(mylib_op op, mylib_type type, int64_t n, void *out, int64_t out_stride,
                        const void *a, int64_t a_stride, const void *b, int64_t b_stride)
{
    static const char *const names[] = {"out", "a", "b"};
    const mylib_type types[2] = {type, type};
    mylib_operation operation;
    DECLARE_LAYOUT(layout, 3);
    RETURN_IF_ERROR(mylib_operation_of_op(&operation, op, type, types));
    const mylib_program *program = &operation.program;
    if (n < 0 || n > MYLIB_MAX_COUNT)
        return mylib_fail(MYLIB_ERR_ARGUMENT, "n is %lld: expected 0 to 2^52", (long long)n);
    if (n == 0)
        return MYLIB_OK;
    RETURN_IF_NULL(out);
    RETURN_IF_NULL(a);
    if (program->inputs == 2)
        RETURN_IF_NULL(b);

    mylib_layout_begin_row(&layout, n, program->inputs == 2 ? 3 : 2);
    layout.data[0] = out;
    layout.data[1] = (char *)a;
    layout.strides[0][0] = out_stride;
    layout.strides[1][0] = a_stride;
    layout.data[2] = (char *)b;
    layout.strides[2][0] = b_stride;
    for (int k = 0; k < layout.operands; k++) {
        if (n == 1)
            layout.strides[k][0] = 0; /* unused, and may have any value */
        else if (!mylib_can_reach(layout.data[k], 1, layout.shape, layout.strides[k],
                                  (size_t)mylib_program_operand_size(program, k)))
            return mylib_fail(
                MYLIB_ERR_ARGUMENT,
                "%lld elements with the stride %lld of %s lead beyond the memory that "
                "a process can have",
                (long long)n, (long long)layout.strides[k][0], names[k]);
    }

    ENTER_DEFAULT_MODE();
    RETURN_IF_ERROR(mylib_check_exponents(program, (mylib_device){MYLIB_CPU, 0}, NULL, &layout));
    return map_row(op, type, program, &layout);
}
