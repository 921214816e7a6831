__device__ inline float times(float value, float factor) { return value * factor; }
