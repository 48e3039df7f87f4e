/** Frames over a scan that Python has planned. */
package io.lakeport.spark;
