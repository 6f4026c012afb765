/*
 * consumer.c - uses libmylib from C: scales the rows of a matrix by a broadcast column, on the CPU
 * and, where there is one, on the GPU, and checks that both give the same bits.
 */
#include <mylib.h>

#include <stdio.h>
#include <string.h>

enum { ROWS = 3, COLUMNS = 4 };

static int failed(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, mylib_last_message());
    return 1;
}

int main(void)
{
    const mylib_device cpu = {MYLIB_CPU, 0}, gpu = {MYLIB_CUDA, 0};
    double matrix[ROWS][COLUMNS], column[ROWS][1] = {{10}, {100}, {1000}};
    double scaled[ROWS][COLUMNS], on_gpu[ROWS][COLUMNS];
    const int64_t matrix_shape[] = {ROWS, COLUMNS}, column_shape[] = {ROWS, 1};
    int gpus = 0;

    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLUMNS; j++)
            matrix[i][j] = j + 0.5;

    /* All three lie in host memory; the column is repeated along the rows. */
    mylib_array in[] = {{matrix, cpu, MYLIB_F64, 2, matrix_shape, NULL},
                        {column, cpu, MYLIB_F64, 2, column_shape, NULL}};
    mylib_array out = {scaled, cpu, MYLIB_F64, 2, matrix_shape, NULL};
    if (mylib_map(MYLIB_OP_multiply, cpu, NULL, &out, in) != MYLIB_OK)
        return failed("multiply");
    for (int i = 0; i < ROWS; i++)
        printf("%8g %8g %8g %8g\n", scaled[i][0], scaled[i][1], scaled[i][2], scaled[i][3]);
    if (scaled[2][3] != 3500)
        return 1;

    if (mylib_cuda_device_count(&gpus) != MYLIB_OK) {
        printf("libmylib %s, CPU only: %s\n", mylib_version(), mylib_last_message());
        return 0;
    }
    out.data = on_gpu;
    if (mylib_map(MYLIB_OP_multiply, gpu, NULL, &out, in) != MYLIB_OK)
        return failed("multiply on the GPU");
    printf("libmylib %s, %d GPU(s)\n", mylib_version(), gpus);
    return memcmp(scaled, on_gpu, sizeof scaled) != 0;
}
