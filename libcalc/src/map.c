/*
 * map.c - the entry points of element-wise operations: check, choose the backend, call it.
 */
#include "internal.h"

/* All operands in one place, and that place compatible with where to compute. */
static mylib_status check_places(mylib_device device, const mylib_array *out, const mylib_array *in,
                                 int inputs)
{
    char a[MYLIB_DEVICE_TEXT], b[MYLIB_DEVICE_TEXT];
    for (int k = 0; k < inputs; k++)
        if (in[k].device.kind != out->device.kind || in[k].device.index != out->device.index)
            return mylib_fail(MYLIB_ERR_ARGUMENT,
                              "out is on %s but in[%d] is on %s: copy them to one device first",
                              mylib_device_text(a, out->device), k,
                              mylib_device_text(b, in[k].device));
    if (out->device.kind == MYLIB_CUDA &&
        (device.kind != MYLIB_CUDA || device.index != out->device.index))
        return mylib_fail(MYLIB_ERR_ARGUMENT,
                          "the arrays are on %s and cannot be computed with on %s: copy them first",
                          mylib_device_text(a, out->device), mylib_device_text(b, device));
    return MYLIB_OK;
}

mylib_status mylib_map(mylib_op op, mylib_device device, void *stream, const mylib_array *out,
                       const mylib_array *in)
{
    mylib_program program;
    mylib_layout layout;
    mylib_status st;

    if (out == NULL || in == NULL)
        return mylib_fail(MYLIB_ERR_ARGUMENT, "%s is NULL", out == NULL ? "out" : "in");
    MYLIB_TRY(mylib_program_of_op(&program, op, in[0].type));
    MYLIB_TRY(mylib_check_device(device));
    MYLIB_TRY(mylib_layout_init(&layout, out, in, program.inputs));
    for (int k = 1; k < program.inputs; k++)
        if (in[k].type != in[0].type)
            return mylib_fail(MYLIB_ERR_ARGUMENT,
                              "in[0] is %s but in[%d] is %s: convert them to one type",
                              mylib_type_name(in[0].type), k, mylib_type_name(in[k].type));
    if (out->type != program.result_type)
        return mylib_fail(MYLIB_ERR_ARGUMENT, "%s of %s gives %s, but out is %s", mylib_op_name(op),
                          mylib_type_name(in[0].type),
                          mylib_type_name((mylib_type)program.result_type),
                          mylib_type_name(out->type));
    MYLIB_TRY(check_places(device, out, in, program.inputs));

    mylib_overlap overlap = MYLIB_DISJOINT;
    for (int k = 1; k < layout.operands && layout.count != 0; k++) {
        mylib_overlap o = mylib_layout_overlap(&layout, k, mylib_operand_size(&program, 0),
                                               mylib_operand_size(&program, k));
        overlap = o > overlap ? o : overlap;
    }
    for (int d = 0; d < layout.ndim && layout.count != 0; d++)
        if (layout.strides[0][d] == 0 && layout.shape[d] > 1)
            overlap = MYLIB_OVERLAP;

    if (device.kind == MYLIB_CPU) {
        if (layout.count == 0)
            return MYLIB_OK;
        if (overlap == MYLIB_OVERLAP) {
            mylib_cpu_execute_in_order(&program, &layout);
        } else {
            mylib_layout_simplify(&layout);
            mylib_cpu_execute(&program, &layout);
        }
        return MYLIB_OK;
    }

    if (overlap == MYLIB_OVERLAP)
        return mylib_fail(
            MYLIB_ERR_ARGUMENT,
            "out overlaps an input or itself: on a GPU it must be exactly an input, or disjoint");
    mylib_layout_simplify(&layout);
    if (out->device.kind == MYLIB_CUDA)
        return mylib_cuda_map(device.index, stream, &program, &layout);
    return mylib_cuda_map_host(device.index, &program, &layout);
out:
    return st;
}

mylib_status mylib_map1(mylib_op op, mylib_type type, int64_t n, void *out, int64_t out_stride,
                        const void *a, int64_t a_stride, const void *b, int64_t b_stride)
{
    mylib_program program;
    mylib_layout layout;
    mylib_status st = mylib_program_of_op(&program, op, type);
    if (st != MYLIB_OK)
        return st;
    if (n < 0)
        return mylib_fail(MYLIB_ERR_ARGUMENT, "n is %lld: expected 0 or more", (long long)n);
    if (n == 0)
        return MYLIB_OK;
    if (out == NULL || a == NULL || (program.inputs == 2 && b == NULL))
        return mylib_fail(MYLIB_ERR_ARGUMENT, "%s is NULL",
                          out == NULL ? "out"
                          : a == NULL ? "a"
                                      : "b");

    layout.ndim = 1;
    layout.operands = 1 + program.inputs;
    layout.count = layout.shape[0] = n;
    layout.data[0] = out;
    layout.data[1] = (char *)a;
    layout.strides[0][0] = out_stride;
    layout.strides[1][0] = a_stride;
    if (program.inputs == 2) {
        layout.data[2] = (char *)b;
        layout.strides[2][0] = b_stride;
    }

    mylib_overlap overlap = out_stride == 0 && n > 1 ? MYLIB_OVERLAP : MYLIB_DISJOINT;
    for (int k = 1; k < layout.operands; k++) {
        mylib_overlap o = mylib_layout_overlap(&layout, k, mylib_operand_size(&program, 0),
                                               mylib_operand_size(&program, k));
        overlap = o > overlap ? o : overlap;
    }
    if (overlap != MYLIB_OVERLAP) {
        mylib_layout_simplify(&layout);
        mylib_cpu_execute(&program, &layout);
        return MYLIB_OK;
    }
    if (op == MYLIB_OP_add && out == a && out_stride == 0 && a_stride == 0 && n > 1) {
        t_c128 sum; /* room for any sum type */
        int in_out = mylib_layout_overlap(&layout, 2, mylib_operand_size(&program, 0),
                                          mylib_operand_size(&program, 2)) != MYLIB_DISJOINT;
        if (!in_out) {
            mylib_cpu_sum(type, n, b, b_stride, &sum);
            mylib_cpu_fold_sum(type, out, &sum);
            return MYLIB_OK;
        }
    }
    mylib_cpu_execute_in_order(&program, &layout);
    return MYLIB_OK;
}
