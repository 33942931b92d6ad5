#pragma once
#define SIZE 10
#define WIDTH 1
#define LOWER 0
#define UPPER(n) ((n) - 1)
#pragma xmp nodes p(PROCS)
#pragma xmp template t(LOWER:UPPER(SIZE))
#pragma xmp distribute t(block) onto p
extern int data[SIZE];
